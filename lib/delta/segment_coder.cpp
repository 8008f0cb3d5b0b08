// SPDX-License-Identifier: Apache-2.0
#include "delta/segment_coder.hpp"

#include <algorithm>
#include <cstdlib>

namespace wdelta {

std::optional<BaseStream> BaseStream::of(const TensorSources& sources, const SafetensorsHeader& next) {
  if (sources.files.empty()) return std::nullopt;
  const BaseFile& base = *sources.files.front();
  if (base.bytes().size_bytes() != base.file->size_bytes()) return std::nullopt;
  BaseStream stream{base.file.get(), 0};
  const auto first =
      std::ranges::find(sources.places, static_cast<const RebuiltFile*>(stream.file), &TensorSources::Place::file);
  if (first == sources.places.end()) return stream;
  const Tensor& tensor = next.tensors()[static_cast<std::size_t>(first - sources.places.begin())];
  const auto shift = static_cast<std::int64_t>(first->begin) - static_cast<std::int64_t>(tensor.begin);
  if (std::abs(shift) <= k_largest_shift) stream.shift = shift;
  return stream;
}

std::size_t SegmentCoder::Files::segment_count() const {
  return std::max(next_tree->segment_count(), base ? base_tree->segment_count() : 0);
}

RunGroups::Ends SegmentCoder::Files::ends(std::size_t index, std::size_t run_end) const {
  const auto end_of = [&](std::size_t segment) {
    return std::min((segment + 1) * std::uint64_t{Blake3Tree::k_segment_bytes}, next->size_bytes());
  };
  return {end_of(index), end_of(run_end - 1)};
}

SegmentCoder::SegmentCoder(const Files& files, BlockChoice choice, const Engine& engine, StageClock* stages)
    : files_(files), next_(*files.next, *files.next_tree), groups_(engine, choice), laps_(stages) {
  if (files.base) base_.emplace(*files.base->file, *files.base_tree);
}

CodedSegment SegmentCoder::operator()(std::size_t index, std::size_t run_end) {
  laps_.restart();
  const std::uint64_t begin = index * std::uint64_t{Blake3Tree::k_segment_bytes};
  next_.start(index, run_end, std::min(begin, files_.next->size_bytes()), laps_);
  if (base_)
    base_->start(index, run_end, std::min({begin, files_.base->place(begin), files_.base->file->size_bytes()}), laps_);
  BlockWalk block(*files_.header, next_.segment().begin, next_.segment().end());
  const RunGroups::Ends ends = files_.ends(index, run_end);
  CodedSegment coded;
  while (!next_.all_read()) {
    next_.read_to(end_of_piece(), laps_);
    while (base_ && !base_->all_read() && base_->end() < files_.base->place(next_.end())) {
      base_->read_to(std::min(files_.base->place(next_.end()), base_->end() + files_.base->file->piece_bytes()), laps_);
    }
    for (; !block.done() && is_held(block); block.advance()) code(block, ends, coded);
    drop_before(block.done() ? next_.end() : block.begin());
  }
  while (base_ && !base_->all_read()) {
    base_->read_to(base_->end() + files_.base->file->piece_bytes(), laps_);
    drop_before(block.done() ? base_->end() : block.begin());
  }
  // The last block goes on into the next segment, where it is hashed.
  for (; !block.done(); block.advance()) {
    next_.read_behind(block.end(), laps_);
    if (files_.passes_by(block.tensor())) base_->read_behind(files_.base->place(block.end()), laps_);
    code(block, ends, coded);
  }
  groups_.end_segment(index + 1 == run_end, coded);
  laps_.lap(Stage::code, 0);
  return coded;
}

// Up to where blocks end, so that next to nothing is kept until the next piece is there.
std::uint64_t SegmentCoder::end_of_piece() const {
  const std::uint64_t offset = next_.end() + files_.next->piece_bytes();
  const std::uint64_t boundary = block_boundary_before(*files_.header, offset);
  return boundary > next_.end() ? boundary : offset;
}

bool SegmentCoder::is_held(const BlockWalk& block) const {
  return block.end() <= next_.end() &&
         (!files_.passes_by(block.tensor()) || files_.base->place(block.end()) <= base_->end());
}

// Forgets what lies before `offset` of next.
void SegmentCoder::drop_before(std::uint64_t offset) {
  next_.drop_before(offset);
  if (base_) base_->drop_before(files_.base->place(offset));
}

void SegmentCoder::code(const BlockWalk& block, const RunGroups::Ends& ends, CodedSegment& coded) {
  const Tensor& tensor = files_.header->tensors()[block.tensor()];
  GroupEncoder& encoder = groups_.encoder_for(block.tensor(), tensor, block.begin(), ends, coded);
  encoder.add(base_of(block), next_.bytes(block.begin(), block.end()));
  laps_.lap(Stage::code, block.end() - block.begin());
}

std::span<const std::uint8_t> SegmentCoder::base_of(const BlockWalk& block) {
  if (files_.passes_by(block.tensor()))
    return base_->bytes(files_.base->place(block.begin()), files_.base->place(block.end()));
  const auto bytes = base_block_.of_size(block.end() - block.begin());
  const TensorSources::Place& place = files_.sources->places[block.tensor()];
  if (place.file != nullptr) {
    place.file->read_at(place.begin + block.begin() - files_.header->tensors()[block.tensor()].begin, bytes);
    laps_.lap(Stage::read, bytes.size());
  } else {
    std::ranges::fill(bytes, std::uint8_t{0});
  }
  return bytes;
}

}  // namespace wdelta
