// SPDX-License-Identifier: Apache-2.0
#include "delta/device_batch.hpp"

#include <algorithm>
#include <limits>

namespace wdelta {
namespace {

// Parts of tensors with fewer elements are compared by the host: each costs the device some launches and a wait.
constexpr std::uint64_t k_least_elements = 32'768;

// Blocks that begin in a segment, of ordinary tensors: those of the narrowest elements, and some that end tensors.
constexpr std::size_t k_segment_blocks = 72;

}  // namespace

/// The bytes of one block of a part, for the encoder to look at.
class DeviceBatch::Bytes final : public BlockBytes {
 public:
  Bytes(DeviceBatch& batch, const Part& part, const Block& block) : batch_(&batch), part_(&part), block_(&block) {}
  std::span<const std::uint8_t> base() override {
    if (base_.empty()) base_ = batch_->base_of(*part_, *block_);
    return base_;
  }
  std::span<const std::uint8_t> next() override { return batch_->next_of(*block_); }

 private:
  DeviceBatch* batch_;
  const Part* part_;
  const Block* block_;
  std::span<const std::uint8_t> base_;  // once it was asked for: it may have to come from the device
};

DeviceBatch::DeviceBatch(const SegmentCoder::Files& files, Device& device, std::size_t most_segments)
    : files_(files),
      stream_(device.make_stream()),
      next_(device, *stream_),
      base_(device, *stream_),
      comparison_(device, *stream_, most_segments * k_segment_blocks),
      digests_(device, most_segments) {}

std::uint64_t DeviceBatch::Hashed::begin_bytes() const {
  return std::min(first * std::uint64_t{Blake3Tree::k_segment_bytes}, file_bytes);
}

std::uint64_t DeviceBatch::Hashed::end_bytes() const {
  return std::min(end * std::uint64_t{Blake3Tree::k_segment_bytes}, file_bytes);
}

// The last segment of a file, and the only one, is no subtree that a device could hash alone.
std::size_t DeviceBatch::Hashed::subtree_count() const {
  if (end == first) return 0;
  return tree->is_subtree(end - 1) ? end - first : end - first - 1;
}

DeviceBatch::Hashed DeviceBatch::hashed_of(const ByteReader& file, Blake3Tree& tree) const {
  const std::size_t count = tree.segment_count();
  return {&tree, file.size_bytes(), std::min(first_, count), std::min(end_, count), 0};
}

void DeviceBatch::start(std::size_t first, std::size_t end, StageLaps& laps) {
  laps.restart();
  index_ = first_ = first;
  end_ = end;
  next_part_ = 0;
  hashed_next_ = hashed_of(*files_.next, *files_.next_tree);
  hashed_base_ = files_.base ? hashed_of(*files_.base->file, *files_.base_tree) : Hashed{};
  list_blocks();
  read_next();
  read_base();
  laps.lap(Stage::read, hashed_next_.size_bytes() + hashed_base_.size_bytes());
  ask_digests(DeviceDigests::End::result, next_, hashed_next_);
  ask_digests(DeviceDigests::End::base, base_, hashed_base_);
  ask_changes();
  laps.lap(Stage::code);
}

void DeviceBatch::list_blocks() {
  blocks_.clear();
  parts_.clear();
  const auto tensors = files_.header->tensors();
  for (std::size_t index = hashed_next_.first; index < hashed_next_.end; ++index) {
    const Segment segment = segment_at(files_.next->size_bytes(), index);
    for (BlockWalk block(*files_.header, segment.begin, segment.end()); !block.done(); block.advance()) {
      if (parts_.empty() || parts_.back().segment != index || parts_.back().tensor != block.tensor()) {
        const bool has_source = files_.sources->places[block.tensor()].file != nullptr;
        parts_.push_back({index, block.tensor(), has_source ? Beside::base : Beside::zeros,
                          element_type(tensors[block.tensor()]), blocks_.size(), 0, std::nullopt});
      }
      blocks_.push_back({block.begin(), static_cast<std::size_t>(block.end() - block.begin()), 0});
      ++parts_.back().block_count;
    }
  }
}

// The last block may go on into the next segment.
void DeviceBatch::read_next() {
  const std::uint64_t begin = hashed_next_.begin_bytes();
  std::uint64_t end = hashed_next_.end_bytes();
  if (!blocks_.empty()) end = std::max(end, blocks_.back().begin + blocks_.back().size_bytes);
  const auto size_bytes = static_cast<std::size_t>(end - begin);
  next_.restart(size_bytes);
  next_.append(*files_.next, begin, size_bytes);
}

// The base's segments with all that passes by, and behind it what has to be fetched from elsewhere.
void DeviceBatch::read_base() {
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;
  std::size_t elsewhere_bytes = 0;
  const bool is_hashed = hashed_base_.size_bytes() != 0;
  if (is_hashed) {
    begin = hashed_base_.begin_bytes();
    end = hashed_base_.end_bytes();
  }
  for (const Part& part : parts_) {
    if (part.beside == Beside::zeros) continue;
    const Block& first = blocks_of(part).front();
    const Block& last = blocks_of(part).back();
    const std::uint64_t part_end = last.begin + last.size_bytes;
    if (files_.passes_by(part.tensor)) {
      begin = std::min(begin, files_.base->place(first.begin));
      end = std::max(end, files_.base->place(part_end));
    } else {
      elsewhere_bytes += part_end - first.begin;
    }
  }
  const auto stream_bytes = begin < end ? static_cast<std::size_t>(end - begin) : 0;
  base_.restart(stream_bytes + elsewhere_bytes);
  if (stream_bytes != 0) base_.append(*files_.base->file, begin, stream_bytes);
  if (is_hashed) hashed_base_.place = static_cast<std::size_t>(hashed_base_.begin_bytes() - begin);
  for (const Part& part : parts_) {
    if (part.beside == Beside::zeros) continue;
    const std::span<Block> blocks = std::span(blocks_).subspan(part.first_block, part.block_count);
    const std::uint64_t part_begin = blocks.front().begin;
    std::size_t place = 0;
    if (files_.passes_by(part.tensor)) {
      place = static_cast<std::size_t>(files_.base->place(part_begin) - begin);
    } else {
      const TensorSources::Place& source = files_.sources->places[part.tensor];
      place = base_.append(*source.file, source.begin + part_begin - files_.header->tensors()[part.tensor].begin,
                           blocks.back().begin + blocks.back().size_bytes - part_begin);
    }
    for (Block& block : blocks) block.base_place = place + static_cast<std::size_t>(block.begin - part_begin);
  }
}

void DeviceBatch::ask_digests(DeviceDigests::End end, const DeviceStretch& stretch, const Hashed& hashed) {
  digests_.ask(end, hashed.first, hashed.subtree_count(), stretch.on_device(hashed.place), *stream_);
}

// Waited for.
void DeviceBatch::take_digests(DeviceDigests::End end, DeviceStretch& stretch, const Hashed& hashed) {
  digests_.take(end, *hashed.tree);
  const std::size_t subtrees = hashed.subtree_count();
  if (subtrees == hashed.end - hashed.first) return;
  const std::size_t done = subtrees * Blake3Tree::k_segment_bytes;
  hashed.tree->set_segment(hashed.end - 1, stretch.on_host(hashed.place + done, hashed.size_bytes() - done));
}

void DeviceBatch::ask_changes() {
  comparison_.clear();
  for (Part& part : parts_) {
    const auto blocks = blocks_of(part);
    const std::uint64_t elements =
        (blocks.back().begin + blocks.back().size_bytes - blocks.front().begin) / part.type.width_bytes;
    if (part.beside == Beside::zeros || part.type.width_bytes > 4 || elements < k_least_elements ||
        blocks.size() > comparison_.room()) {
      continue;
    }
    part.compared = comparison_.begin_group(part.type);
    for (const Block& block : blocks) {
      comparison_.add({base_.on_device(block.base_place), next_.on_device(place_in_next(block.begin)),
                       static_cast<std::uint32_t>(block.size_bytes / part.type.width_bytes)});
    }
  }
  if (comparison_.has_blocks()) comparison_.find();
}

// What the device was left to do, and what that lets it be asked for.
void DeviceBatch::take_findings(StageLaps& laps) {
  stream_->wait();
  laps.lap(Stage::wait);
  if (comparison_.has_blocks()) comparison_.fetch();
  take_digests(DeviceDigests::End::result, next_, hashed_next_);
  if (files_.base) take_digests(DeviceDigests::End::base, base_, hashed_base_);
  laps.lap(Stage::hash, hashed_next_.size_bytes() + hashed_base_.size_bytes());
  stream_->wait();
  laps.lap(Stage::wait);
}

CodedSegment DeviceBatch::code_next(RunGroups& groups, std::size_t run_end, StageLaps& laps) {
  laps.restart();
  if (index_ == first_) take_findings(laps);
  const RunGroups::Ends ends = files_.ends(index_, run_end);
  CodedSegment coded;
  for (; next_part_ < parts_.size() && parts_[next_part_].segment == index_; ++next_part_) {
    const Part& part = parts_[next_part_];
    const Block& first = blocks_of(part).front();
    const Block& last = blocks_of(part).back();
    const Tensor& tensor = files_.header->tensors()[part.tensor];
    GroupEncoder& encoder = groups.encoder_for(part.tensor, tensor, first.begin, ends, coded);
    if (part.compared && comparison_.is_fetched(*part.compared)) {
      code_compared(part, encoder);
    } else {
      code_part(part, encoder);
    }
    laps.lap(Stage::code, last.begin + last.size_bytes - first.begin);
  }
  ++index_;
  groups.end_segment(index_ == run_end, coded);
  laps.lap(Stage::code, 0);
  return coded;
}

void DeviceBatch::code_part(const Part& part, GroupEncoder& encoder) {
  for (const Block& block : blocks_of(part)) encoder.add(base_of(part, block), next_of(block));
}

void DeviceBatch::code_compared(const Part& part, GroupEncoder& encoder) {
  const auto blocks = blocks_of(part);
  const std::size_t before = encoder.block_count();
  bool any_wants_ranks = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Bytes bytes(*this, part, blocks[i]);
    encoder.add(comparison_.compared(*part.compared, i), bytes);
    any_wants_ranks |= encoder.wants_ranks(before + i);
  }
  if (!any_wants_ranks) return;
  comparison_.rank(*part.compared, encoder.bounds());
  stream_->wait();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (encoder.wants_ranks(before + i)) encoder.add_ranks(before + i, comparison_.ranked(*part.compared, i));
  }
}

std::span<const std::uint8_t> DeviceBatch::next_of(const Block& block) {
  return next_.on_host(place_in_next(block.begin), block.size_bytes);
}

std::span<const std::uint8_t> DeviceBatch::base_of(const Part& part, const Block& block) {
  if (part.beside == Beside::base) return base_.on_host(block.base_place, block.size_bytes);
  const auto zeros = zeros_.of_size(block.size_bytes);
  std::ranges::fill(zeros, std::uint8_t{0});
  return zeros;
}

}  // namespace wdelta
