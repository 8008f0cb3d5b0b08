// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_batch.hpp"

#include "engine/class_map.hpp"
#include "engine/engine.hpp"

#include <algorithm>

namespace wdelta::testing {
namespace {

const BlockKernels& scalar(ElementType type) { return engine_named("scalar").block(type); }

std::uint8_t context_by_the_page(std::uint64_t bits, ElementType type) {
  if (type.width_bytes == 1) return context_of(static_cast<std::uint8_t>(bits), type.kind);
  if (type.width_bytes == 2) return context_of(static_cast<std::uint16_t>(bits), type.kind);
  if (type.width_bytes == 4) return context_of(static_cast<std::uint32_t>(bits), type.kind);
  return context_of(bits, type.kind);
}

/// What lies in a row of results, or was packed, against what should.
template <class Entry>
bool is_same(const std::vector<Entry>& found, const Entry* expected) {
  return std::equal(found.begin(), found.end(), expected);
}

}  // namespace

// With room behind it, as scalar kernels may need.
std::size_t BlockBatch::place(const Bytes& bytes, std::size_t skew) {
  const std::size_t at = (sides_.size() + 15) / 16 * 16 + skew;
  sides_.resize(at + bytes.size());
  std::copy(bytes.begin(), bytes.end(), sides_.begin() + static_cast<std::ptrdiff_t>(at));
  return at;
}

void BlockBatch::add(const Bytes& base, const Bytes& next, Skews skews) {
  const std::size_t width = type_.width_bytes;
  const auto count = static_cast<std::uint32_t>(base.size() / width);
  std::vector<std::uint16_t> positions(count + 64);
  Bytes steps((count + 64) * width);
  const std::uint32_t changes =
      scalar(type_).find_changes(base.data(), next.data(), count, positions.data(), steps.data());
  blocks_.push_back({place(base, skews.base), place(next, skews.next), count, changes, positions_.size()});
  positions_.insert(positions_.end(), positions.begin(), positions.begin() + changes);
  steps_.insert(steps_.end(), steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(changes * width));
  for (std::uint32_t i = 0; i < changes; ++i) {
    contexts_.push_back(context_by_the_page(get(base.data(), positions[i], type_.width_bytes), type_));
  }
}

/// The batch on a device, and what is found there.
struct BlockBatch::Uploaded {
  Uploaded(Device& device, DeviceStream& stream, const BlockBatch& batch)
      : sides(device, stream, batch.sides_),
        blocks(device, batch.size()),
        counts(device, batch.size()),
        positions(device, batch.size() * k_device_block_changes),
        steps(device, batch.size() * k_device_block_changes * batch.type_.width_bytes),
        contexts(device, batch.size() * k_device_block_changes) {
    std::vector<DeviceBlock> described;
    for (const Block& block : batch.blocks_) {
      described.push_back({sides.begin() + block.base_at, sides.begin() + block.next_at, block.count});
    }
    stream.upload(blocks.begin(), described.data(), described.size() * sizeof(DeviceBlock));
    stream.wait();
    stream.find_changes(batch.type_, blocks.begin(), batch.size(), found());
  }
  DeviceChanges found() const { return {counts.begin(), positions.begin(), steps.begin(), contexts.begin()}; }

  OnDevice<std::uint8_t> sides;
  OnDevice<DeviceBlock> blocks;
  OnDevice<std::uint32_t> counts;
  OnDevice<std::uint16_t> positions;
  OnDevice<std::uint8_t> steps;
  OnDevice<std::uint8_t> contexts;
};

void BlockBatch::check_found(Device& device) {
  if (blocks_.empty()) return;
  const auto stream = device.make_stream();
  const Uploaded uploaded(device, *stream, *this);
  const std::vector<std::uint32_t> counts = uploaded.counts.get(*stream);
  const std::size_t width = type_.width_bytes;
  struct Found {
    std::vector<std::uint16_t> positions;
    Bytes steps;
    Bytes contexts;
  };
  std::vector<Found> found;
  for (std::size_t i = 0; i < size(); ++i) {
    const std::size_t row = i * k_device_block_changes;
    const std::size_t changes = blocks_[i].changes;
    found.push_back({uploaded.positions.later(*stream, row, changes),
                     uploaded.steps.later(*stream, row * width, changes * width),
                     uploaded.contexts.later(*stream, row, changes)});
  }
  stream->wait();
  for (std::size_t i = 0; i < size(); ++i) {
    const Block& block = blocks_[i];
    CAPTURE(int{type_.width_bytes});
    CAPTURE(int(type_.kind));
    CAPTURE(block.count);
    CAPTURE(block.base_at % 16);
    CAPTURE(block.next_at % 16);
    REQUIRE(counts[i] == block.changes);
    REQUIRE(is_same(found[i].positions, positions_.data() + block.change_at));
    REQUIRE(is_same(found[i].steps, steps_.data() + block.change_at * width));
    REQUIRE(is_same(found[i].contexts, contexts_.data() + block.change_at));
  }
  REQUIRE(uploaded.sides.get(*stream) == sides_);
  *this = BlockBatch(type_);
}

void BlockBatch::check_ranked(Device& device, const Bytes& bounds) {
  if (blocks_.empty()) return;
  const auto stream = device.make_stream();
  const Uploaded uploaded(device, *stream, *this);
  const OnDevice<std::uint16_t> ranks(device, size() * k_device_block_changes);
  const OnDevice<std::uint8_t> classes(device, size() * k_device_block_changes);
  const OnDevice<std::uint32_t> members(device, size() * k_most_classes);
  stream->rank_changes(type_, uploaded.blocks.begin(), size(), bounds, uploaded.found(), ranks.begin(), classes.begin(),
                       members.begin());
  const std::vector<std::uint32_t> found_members = members.get(*stream);

  std::vector<std::uint16_t> expected_ranks(positions_.size());
  Bytes expected_classes(positions_.size());
  std::vector<std::uint32_t> starts;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    starts.push_back(static_cast<std::uint32_t>(block.change_at));
    if (block.changes == 0) continue;
    std::array<std::uint32_t, k_most_classes> expected_members;
    scalar(type_).rank_changes(sides_.data() + block.base_at, block.count, bounds.data(),
                               static_cast<std::uint32_t>(bounds.size()), positions_.data() + block.change_at,
                               block.changes, expected_ranks.data() + block.change_at,
                               expected_classes.data() + block.change_at, expected_members.data());
    REQUIRE(std::equal(expected_members.begin(), expected_members.end(), found_members.data() + i * k_most_classes));
  }
  const OnDevice<std::uint32_t> starts_there(device, *stream, starts);
  const std::size_t changes = positions_.size();
  const OnDevice<std::uint8_t> packed_classes(device, changes);
  const OnDevice<std::uint8_t> packed_ranks(device, 2 * changes);
  const OnDevice<std::uint8_t> packed_positions(device, 2 * changes);
  const OnDevice<std::uint8_t> packed_steps(device, steps_.size());
  const DevicePacking three[] = {{classes.begin(), packed_classes.begin(), 1},
                                 {ranks.begin(), packed_ranks.begin(), 2},
                                 {uploaded.steps.begin(), packed_steps.begin(), type_.width_bytes}};
  static_assert(std::size(three) == k_most_packings);
  stream->pack(three, uploaded.counts.begin(), starts_there.begin(), size());
  const DevicePacking one[] = {{uploaded.positions.begin(), packed_positions.begin(), 2}};
  stream->pack(one, uploaded.counts.begin(), starts_there.begin(), size());
  CAPTURE(int{type_.width_bytes});
  CAPTURE(int(type_.kind));
  const auto bytes_of = [](const std::vector<std::uint16_t>& entries) {
    Bytes bytes(2 * entries.size());
    if (!bytes.empty()) std::memcpy(bytes.data(), entries.data(), bytes.size());
    return bytes;
  };
  REQUIRE(packed_classes.get(*stream) == expected_classes);
  REQUIRE(packed_ranks.get(*stream) == bytes_of(expected_ranks));
  REQUIRE(packed_positions.get(*stream) == bytes_of(positions_));
  REQUIRE(packed_steps.get(*stream) == steps_);
  REQUIRE(uploaded.sides.get(*stream) == sides_);
  *this = BlockBatch(type_);
}

}  // namespace wdelta::testing
