// SPDX-License-Identifier: Apache-2.0
#include "engine/device_comparison.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace wdelta {
namespace {

// Of a group in which more than one in so many elements changes, the bytes are looked at anyway, or nearly.
constexpr std::uint64_t k_dense = 4;

// Lists lie one behind the other, each with room for all blocks of a batch.
constexpr std::size_t k_counts = sizeof(DeviceBlock) * DeviceComparison::k_most_blocks;
constexpr std::size_t k_fetched_counts = k_counts + sizeof(std::uint32_t) * DeviceComparison::k_most_blocks;
constexpr std::size_t k_starts = k_fetched_counts + sizeof(std::uint32_t) * DeviceComparison::k_most_blocks;
constexpr std::size_t k_lists = k_starts + sizeof(std::uint32_t) * DeviceComparison::k_most_blocks;

// Members of classes in a block.
constexpr std::size_t k_members_bytes = k_most_classes * sizeof(std::uint32_t);

std::uint32_t* words_at(std::uint8_t* lists, std::size_t offset) {
  return reinterpret_cast<std::uint32_t*>(lists + offset);
}

}  // namespace

DeviceComparison::Packed::Packed(std::size_t changes) {
  const auto behind = [&](std::size_t width_bytes) {
    const std::size_t begin = end;
    end += (changes * width_bytes + 255) / 256 * 256;
    return begin;
  };
  positions = behind(sizeof(std::uint16_t));
  steps = behind(sizeof(std::uint32_t));
  contexts = behind(sizeof(std::uint8_t));
  ranks = behind(sizeof(std::uint16_t));
  classes = behind(sizeof(std::uint8_t));
  members = end;
  if (changes > 0) end += k_most_blocks * k_members_bytes;
}

DeviceComparison::DeviceComparison(Device& device, DeviceStream& stream)
    : stream_(&stream),
      lists_(device, DeviceBuffer::Place::device),
      host_lists_(device, DeviceBuffer::Place::pinned),
      positions_(device, DeviceBuffer::Place::device),
      steps_(device, DeviceBuffer::Place::device),
      contexts_(device, DeviceBuffer::Place::device),
      ranks_(device, DeviceBuffer::Place::device),
      packed_on_device_(device, DeviceBuffer::Place::device),
      packed_on_host_(device, DeviceBuffer::Place::pinned) {}

void DeviceComparison::clear() {
  widest_bytes_ = 1;
  blocks_.clear();
  groups_.clear();
  starts_.clear();
}

std::size_t DeviceComparison::begin_group(ElementType type) {
  widest_bytes_ = std::max<std::size_t>(widest_bytes_, type.width_bytes);
  groups_.push_back({type, blocks_.size()});
  return groups_.size() - 1;
}

void DeviceComparison::add(const DeviceBlock& block) {
  if (blocks_.size() == k_most_blocks) throw Error(Fault::internal, "", "too many blocks for a device at a time");
  blocks_.push_back(block);
  ++groups_.back().block_count;
}

const DeviceBlock* DeviceComparison::blocks_on_device() const {
  return reinterpret_cast<const DeviceBlock*>(lists_.begin());
}

std::uint32_t* DeviceComparison::found_counts() const { return words_at(lists_.begin(), k_counts); }

// What was found in its blocks, on the device.
DeviceChanges DeviceComparison::found(const Group& group) const {
  const std::size_t first = group.first_block * k_device_block_changes;
  // Every block has room for steps as wide as the widest of the batch: groups of different types never meet.
  return {found_counts() + group.first_block, reinterpret_cast<std::uint16_t*>(positions_.begin()) + first,
          steps_.begin() + first * widest_bytes_, contexts_.begin() + first};
}

void DeviceComparison::find() {
  const std::size_t room = blocks_.size() * k_device_block_changes;
  std::uint8_t* const lists = lists_.of_size(k_lists);
  std::uint8_t* const host_lists = host_lists_.of_size(k_lists);
  positions_.of_size(room * sizeof(std::uint16_t));
  steps_.of_size(room * widest_bytes_);
  contexts_.of_size(room);
  std::memcpy(host_lists, blocks_.data(), blocks_.size() * sizeof(DeviceBlock));
  stream_->upload(lists, host_lists, blocks_.size() * sizeof(DeviceBlock));
  for (const Group& group : groups_)
    stream_->find_changes(group.type, blocks_on_device() + group.first_block, group.block_count, found(group));
  stream_->download(host_lists + k_counts, found_counts(), blocks_.size() * sizeof(std::uint32_t));
}

// Which groups are, and where their changes go.
void DeviceComparison::choose_fetched() {
  const std::uint32_t* const counts = words_at(host_lists_.begin(), k_counts);
  std::uint32_t* const fetched_counts = words_at(host_lists_.begin(), k_fetched_counts);
  std::uint32_t next_change = 0;
  starts_.clear();
  for (Group& group : groups_) {
    std::uint64_t elements = 0;
    std::uint64_t changes = 0;
    for (std::size_t i = group.first_block; i < group.first_block + group.block_count; ++i) {
      if (counts[i] > blocks_[i].count) throw Error(Fault::local, "", "the device counts more changes than elements");
      elements += blocks_[i].count;
      changes += counts[i];
    }
    group.is_fetched = changes <= elements / k_dense;
    group.first_change = next_change;
    for (std::size_t i = group.first_block; i < group.first_block + group.block_count; ++i) {
      fetched_counts[i] = group.is_fetched ? counts[i] : 0;
      starts_.push_back(next_change);
      next_change += fetched_counts[i];
    }
    group.changes = next_change - group.first_change;
  }
  std::ranges::copy(starts_, words_at(host_lists_.begin(), k_starts));
  packed_ = Packed(next_change);
}

void DeviceComparison::fetch() {
  choose_fetched();
  if (packed_.end == 0) return;
  std::uint8_t* const lists = lists_.begin();
  stream_->upload(lists + k_fetched_counts, host_lists_.begin() + k_fetched_counts, k_lists - k_fetched_counts);
  std::uint8_t* const packed = packed_on_device_.of_size(packed_.end);
  packed_on_host_.of_size(packed_.end);
  for (const Group& group : groups_) {
    if (group.changes == 0) continue;
    const DeviceChanges from = found(group);
    const std::uint32_t* const counts = words_at(lists, k_fetched_counts) + group.first_block;
    const std::uint32_t* const starts = words_at(lists, k_starts) + group.first_block;
    const std::uint8_t width = group.type.width_bytes;
    stream_->pack(from.positions, sizeof(std::uint16_t), counts, starts, group.block_count, packed + packed_.positions);
    stream_->pack(from.contexts, sizeof(std::uint8_t), counts, starts, group.block_count, packed + packed_.contexts);
    // So that those of the group begin where its changes do, 4 bytes for each before them.
    const std::size_t steps = packed_.steps + std::size_t{group.first_change} * (sizeof(std::uint32_t) - width);
    stream_->pack(from.steps, width, counts, starts, group.block_count, packed + steps);
    download(steps + std::size_t{group.first_change} * width, std::size_t{group.changes} * width);
  }
  const std::size_t changes = starts_.back() + words_at(host_lists_.begin(), k_fetched_counts)[starts_.size() - 1];
  download(packed_.positions, changes * sizeof(std::uint16_t));
  download(packed_.contexts, changes);
}

void DeviceComparison::download(std::size_t offset, std::size_t size_bytes) {
  stream_->download(packed_on_host_.begin() + offset, packed_on_device_.begin() + offset, size_bytes);
}

ComparedBlock DeviceComparison::compared(std::size_t group_index, std::size_t block) const {
  const Group& group = groups_[group_index];
  const std::size_t index = group.first_block + block;
  const std::size_t first = starts_[index];
  const std::uint8_t* const packed = packed_on_host_.begin();
  const std::uint32_t changes = words_at(host_lists_.begin(), k_fetched_counts)[index];
  if (changes == 0) return {blocks_[index].count, {}, nullptr, nullptr};
  const std::size_t step =
      group.first_change * sizeof(std::uint32_t) + (first - group.first_change) * std::size_t{group.type.width_bytes};
  return {blocks_[index].count,
          {reinterpret_cast<const std::uint16_t*>(packed + packed_.positions) + first, changes},
          packed + packed_.steps + step,
          packed + packed_.contexts + first};
}

void DeviceComparison::rank(std::size_t group_index, const ClassBounds& bounds) {
  const Group& group = groups_[group_index];
  if (group.changes == 0) return;
  const std::size_t first = group.first_block * k_device_block_changes;
  auto* const ranks =
      reinterpret_cast<std::uint16_t*>(ranks_.of_size(blocks_.size() * k_device_block_changes * sizeof(std::uint16_t)));
  DeviceChanges from = found(group);
  std::uint8_t* const classes = from.contexts;
  from.contexts = nullptr;
  const std::size_t members = packed_.members + group.first_block * k_members_bytes;
  stream_->rank_changes(group.type, blocks_on_device() + group.first_block, group.block_count, bounds, from,
                        ranks + first, classes, words_at(packed_on_device_.begin(), members));
  download(members, group.block_count * k_members_bytes);
  const std::uint32_t* const counts = words_at(lists_.begin(), k_fetched_counts) + group.first_block;
  const std::uint32_t* const starts = words_at(lists_.begin(), k_starts) + group.first_block;
  std::uint8_t* const packed = packed_on_device_.begin();
  stream_->pack(ranks + first, sizeof(std::uint16_t), counts, starts, group.block_count, packed + packed_.ranks);
  stream_->pack(classes, sizeof(std::uint8_t), counts, starts, group.block_count, packed + packed_.classes);
  download(packed_.ranks + group.first_change * sizeof(std::uint16_t), group.changes * sizeof(std::uint16_t));
  download(packed_.classes + group.first_change, group.changes);
}

RankedChanges DeviceComparison::ranked(std::size_t group, std::size_t block) const {
  const ComparedBlock found = compared(group, block);
  const std::size_t first = starts_[groups_[group].first_block + block];
  const std::uint8_t* const packed = packed_on_host_.begin();
  const std::size_t index = groups_[group].first_block + block;
  return {found.positions, found.steps, reinterpret_cast<const std::uint16_t*>(packed + packed_.ranks) + first,
          packed + packed_.classes + first,
          words_at(packed_on_host_.begin(), packed_.members + index * k_members_bytes)};
}

}  // namespace wdelta
