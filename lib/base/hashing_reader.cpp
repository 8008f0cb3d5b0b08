// SPDX-License-Identifier: Apache-2.0
#include "base/hashing_reader.hpp"

#include "base/cpu.hpp"
#include "base/segments.hpp"

#include <algorithm>

namespace wdelta {

namespace {

bool is_mapping_faster() {
  static const bool faster = cpu_features().slow_page_cache;
  return faster;
}

}  // namespace

HashingReader::HashingReader(const ByteReader& file, Mapping mapping)
    : file_(&file), mapping_(mapping == Mapping::where_possible || is_mapping_faster()) {}

void HashingReader::enter(std::size_t segment) {
  if (segment_ == segment) return;
  segment_ = segment;
  mapped_.reset();  // before the next, so that no more than one is mapped
  if (!mapping_) return;
  const Segment place = segment_at(file_->size_bytes(), segment);
  mapped_ = file_->map(place.begin, place.size_bytes);
  // What has to come from a disk comes best by read(2), and so does what follows it.
  mapping_ = mapped_.has_value();
}

void HashingReader::read(std::uint64_t offset, std::span<std::uint8_t> bytes, Blake3Segment& hash, StageLaps& laps) {
  if (bytes.empty()) return;
  enter(static_cast<std::size_t>(offset / Blake3Tree::k_segment_bytes));
  while (mapped_ && !bytes.empty()) {
    const auto copy = bytes.first(std::min(bytes.size(), Blake3Segment::k_group_bytes));
    laps.lap(Stage::read, copy.size());
    const bool there = mapped_->read(static_cast<std::size_t>(offset % Blake3Tree::k_segment_bytes),
                                     [&](const std::uint8_t* from) { hash.copy_and_update(from, copy); });
    if (!there) {
      mapped_.reset();
      break;
    }
    laps.lap(Stage::hash, copy.size());
    offset += copy.size();
    bytes = bytes.subspan(copy.size());
  }
  if (bytes.empty()) return;
  file_->read_at(offset, bytes);
  laps.lap(Stage::read, bytes.size());
  hash.update(bytes);
  laps.lap(Stage::hash, bytes.size());
}

}  // namespace wdelta
