// SPDX-License-Identifier: Apache-2.0
#include "delta/device_segment.hpp"

#include <algorithm>
#include <limits>

namespace wdelta {
namespace {

// Parts of tensors with fewer elements are compared by the host: each costs the device some launches and a wait.
constexpr std::uint64_t k_least_elements = 32'768;

Segment segment_in(const ByteReader& file, const Blake3Tree& tree, std::size_t index) {
  if (index < tree.segment_count()) return segment_at(file.size_bytes(), index);
  return {file.size_bytes(), 0};
}

}  // namespace

/// The bytes of one block of a part, for the encoder to look at.
class DeviceSegment::Bytes final : public BlockBytes {
 public:
  Bytes(DeviceSegment& segment, const Part& part, const Block& block)
      : segment_(&segment), part_(&part), block_(&block) {}
  std::span<const std::uint8_t> base() override {
    if (base_.empty()) base_ = segment_->base_of(*part_, *block_);
    return base_;
  }
  std::span<const std::uint8_t> next() override { return segment_->next_of(*block_); }

 private:
  DeviceSegment* segment_;
  const Part* part_;
  const Block* block_;
  std::span<const std::uint8_t> base_;  // once it was asked for: it may have to come from the device
};

DeviceSegment::DeviceSegment(const SegmentCoder::Files& files, Device& device)
    : files_(files),
      stream_(device.make_stream()),
      next_(device, *stream_),
      base_(device, *stream_),
      comparison_(device, *stream_),
      digests_(device) {}

void DeviceSegment::start(std::size_t index, StageLaps& laps) {
  laps.restart();
  index_ = index;
  hashed_next_ = {files_.next_tree, segment_in(*files_.next, *files_.next_tree, index), 0};
  hashed_base_ = {};
  if (files_.base) hashed_base_ = {files_.base_tree, segment_in(*files_.base->file, *files_.base_tree, index), 0};
  list_blocks();
  read_next();
  read_base();
  laps.lap(Stage::read, hashed_next_.segment.size_bytes + hashed_base_.segment.size_bytes);
  ask_digest(DeviceDigests::End::result, next_, hashed_next_);
  ask_digest(DeviceDigests::End::base, base_, hashed_base_);
  ask_changes();
  laps.lap(Stage::code);
}

// The blocks that begin in the segment, those of one tensor a part.
void DeviceSegment::list_blocks() {
  blocks_.clear();
  parts_.clear();
  const auto tensors = files_.header->tensors();
  const Segment& segment = hashed_next_.segment;
  for (BlockWalk block(*files_.header, segment.begin, segment.end()); !block.done(); block.advance()) {
    if (parts_.empty() || parts_.back().tensor != block.tensor()) {
      const bool has_source = files_.sources->places[block.tensor()].file != nullptr;
      parts_.push_back({block.tensor(), has_source ? Beside::base : Beside::zeros,
                        element_type(tensors[block.tensor()]), blocks_.size(), 0, std::nullopt});
    }
    blocks_.push_back({block.begin(), static_cast<std::size_t>(block.end() - block.begin()), 0});
    ++parts_.back().block_count;
  }
}

// The last block may go on into the next segment.
void DeviceSegment::read_next() {
  const Segment& segment = hashed_next_.segment;
  std::uint64_t end = segment.end();
  if (!blocks_.empty()) end = std::max(end, blocks_.back().begin + blocks_.back().size_bytes);
  next_begin_ = segment.begin;
  const auto size_bytes = static_cast<std::size_t>(end - next_begin_);
  next_.restart(size_bytes);
  next_.append(*files_.next, next_begin_, size_bytes);
}

std::uint64_t DeviceSegment::place_in_base(std::uint64_t offset) const {
  return offset + static_cast<std::uint64_t>(files_.base->shift);
}

// Whether its counterpart is where the base stream comes along with it.
bool DeviceSegment::passes_by(std::size_t tensor) const {
  if (!files_.base) return false;
  const TensorSources::Place& place = files_.sources->places[tensor];
  return place.file == files_.base->file && place.begin == place_in_base(files_.header->tensors()[tensor].begin);
}

// The base's segment with all that passes by, and behind it what has to be fetched from elsewhere.
void DeviceSegment::read_base() {
  std::uint64_t begin = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;
  std::size_t elsewhere_bytes = 0;
  if (const Segment& segment = hashed_base_.segment; segment.size_bytes != 0) {
    begin = segment.begin;
    end = segment.end();
  }
  for (const Part& part : parts_) {
    if (part.beside == Beside::zeros) continue;
    const Block& first = blocks_of(part).front();
    const Block& last = blocks_of(part).back();
    const std::uint64_t part_end = last.begin + last.size_bytes;
    if (passes_by(part.tensor)) {
      begin = std::min(begin, place_in_base(first.begin));
      end = std::max(end, place_in_base(part_end));
    } else {
      elsewhere_bytes += part_end - first.begin;
    }
  }
  const auto stream_bytes = begin < end ? static_cast<std::size_t>(end - begin) : 0;
  base_.restart(stream_bytes + elsewhere_bytes);
  if (stream_bytes != 0) base_.append(*files_.base->file, begin, stream_bytes);
  if (hashed_base_.segment.size_bytes != 0) {
    hashed_base_.place = static_cast<std::size_t>(hashed_base_.segment.begin - begin);
  }
  for (const Part& part : parts_) {
    if (part.beside == Beside::zeros) continue;
    const std::span<Block> blocks = std::span(blocks_).subspan(part.first_block, part.block_count);
    const std::uint64_t part_begin = blocks.front().begin;
    std::size_t place = 0;
    if (passes_by(part.tensor)) {
      place = static_cast<std::size_t>(place_in_base(part_begin) - begin);
    } else {
      const TensorSources::Place& source = files_.sources->places[part.tensor];
      place = base_.append(*source.file, source.begin + part_begin - files_.header->tensors()[part.tensor].begin,
                           blocks.back().begin + blocks.back().size_bytes - part_begin);
    }
    for (Block& block : blocks) block.base_place = place + static_cast<std::size_t>(block.begin - part_begin);
  }
}

void DeviceSegment::ask_digest(DeviceDigests::End end, const DeviceStretch& stretch, const Hashed& hashed) {
  if (hashed.tree == nullptr || !hashed.tree->is_subtree(index_)) return;
  digests_.ask(end, index_, stretch.on_device(hashed.place), *stream_);
}

// Waited for. The last segment of a file, and the only one, is no subtree that a device could hash alone.
void DeviceSegment::take_digest(DeviceDigests::End end, DeviceStretch& stretch, const Hashed& hashed) {
  if (hashed.tree == nullptr || index_ >= hashed.tree->segment_count()) return;
  if (hashed.tree->is_subtree(index_)) return digests_.take(end, index_, *hashed.tree);
  hashed.tree->set_segment(index_, stretch.on_host(hashed.place, hashed.segment.size_bytes));
}

void DeviceSegment::ask_changes() {
  comparison_.clear();
  std::size_t blocks_left = DeviceComparison::k_most_blocks;
  for (Part& part : parts_) {
    const auto blocks = blocks_of(part);
    const std::uint64_t elements =
        (blocks.back().begin + blocks.back().size_bytes - blocks.front().begin) / part.type.width_bytes;
    if (part.beside == Beside::zeros || part.type.width_bytes > 4 || elements < k_least_elements ||
        blocks.size() > blocks_left) {
      continue;
    }
    blocks_left -= blocks.size();
    part.compared = comparison_.begin_group(part.type);
    for (const Block& block : blocks) {
      comparison_.add({base_.on_device(block.base_place),
                       next_.on_device(static_cast<std::size_t>(block.begin - next_begin_)),
                       static_cast<std::uint32_t>(block.size_bytes / part.type.width_bytes)});
    }
  }
  if (comparison_.has_blocks()) comparison_.find();
}

CodedSegment DeviceSegment::code(RunGroups& groups, std::size_t run_end, StageLaps& laps) {
  laps.restart();
  stream_->wait();
  laps.lap(Stage::wait);
  if (comparison_.has_blocks()) comparison_.fetch();
  take_digest(DeviceDigests::End::result, next_, hashed_next_);
  take_digest(DeviceDigests::End::base, base_, hashed_base_);
  laps.lap(Stage::hash, hashed_next_.segment.size_bytes + hashed_base_.segment.size_bytes);
  stream_->wait();
  laps.lap(Stage::wait);
  const RunGroups::Ends ends = files_.ends(index_, run_end);
  CodedSegment coded;
  for (const Part& part : parts_) {
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
  groups.end_segment(index_ + 1 == run_end, coded);
  laps.lap(Stage::code, 0);
  return coded;
}

void DeviceSegment::code_part(const Part& part, GroupEncoder& encoder) {
  for (const Block& block : blocks_of(part)) encoder.add(base_of(part, block), next_of(block));
}

void DeviceSegment::code_compared(const Part& part, GroupEncoder& encoder) {
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

std::span<const std::uint8_t> DeviceSegment::next_of(const Block& block) {
  return next_.on_host(static_cast<std::size_t>(block.begin - next_begin_), block.size_bytes);
}

std::span<const std::uint8_t> DeviceSegment::base_of(const Part& part, const Block& block) {
  if (part.beside == Beside::base) return base_.on_host(block.base_place, block.size_bytes);
  const auto zeros = zeros_.of_size(block.size_bytes);
  std::ranges::fill(zeros, std::uint8_t{0});
  return zeros;
}

}  // namespace wdelta
