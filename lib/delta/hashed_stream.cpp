// SPDX-License-Identifier: Apache-2.0
#include "delta/hashed_stream.hpp"

#include <algorithm>

namespace wdelta {

void HashedStream::start(std::size_t index, std::size_t run_end, std::uint64_t from, StageLaps& laps) {
  run_end_ = run_end;
  if (index_ == index) return;
  begin(index);
  window_.restart(from);
  read(segment_.begin - from, laps);
}

void HashedStream::begin(std::size_t index) {
  index_ = index;
  hash_.reset();
  segment_ = {file_->size_bytes(), 0};
  if (index >= tree_->segment_count()) return;
  segment_ = segment_at(file_->size_bytes(), index);
  hash_.emplace(*tree_, index);
}

void HashedStream::read_to(std::uint64_t offset, StageLaps& laps) {
  // The first of the segment's is what the others follow: it ends as close to `offset` as hashing can.
  const bool is_first = window_.end() == segment_.begin;
  const std::uint64_t unit = is_first ? Blake3Segment::k_unit_bytes : Blake3Segment::k_full_width_bytes;
  const std::uint64_t wanted = (offset - window_.end() + unit - 1) / unit * unit;
  const std::uint64_t begin = window_.end();
  const auto bytes = window_.extend(std::min(wanted, segment_.end() - begin));
  reader_.read(begin, bytes, *hash_, laps);
}

void HashedStream::read_behind(std::uint64_t offset, StageLaps& laps) {
  while (offset > window_.end() && (!all_read() || *index_ + 1 < run_end_)) {
    if (all_read()) begin(*index_ + 1);
    read_to(offset, laps);
  }
  if (offset > window_.end()) read(offset - window_.end(), laps);
}

void HashedStream::drop_before(std::uint64_t offset) {
  window_.drop_before(std::clamp(offset, window_.begin(), window_.end()));
}

void HashedStream::read(std::size_t size_bytes, StageLaps& laps) {
  const std::uint64_t begin = window_.end();
  const auto bytes = window_.extend(size_bytes);
  if (!bytes.empty()) file_->read_at(begin, bytes);
  laps.lap(Stage::read, size_bytes);
}

}  // namespace wdelta
