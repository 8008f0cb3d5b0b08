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

// What is packed begins at multiples of it: a word of a device.
constexpr std::size_t k_alignment = 16;

// Members of classes in a block.
constexpr std::size_t k_members_bytes = k_most_classes * sizeof(std::uint32_t);

std::uint32_t* words_at(std::uint8_t* lists, std::size_t offset) {
  return reinterpret_cast<std::uint32_t*>(lists + offset);
}

}  // namespace

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
  lay_out(next_change);
}

// Kernels are told where the first change of the batch would lie, and count from there: positions, contexts and steps
// stand in this order so that no group's steps, up to 4 bytes each, would begin before the memory does.
void DeviceComparison::lay_out(std::uint32_t changes) {
  packed_ = {};
  if (changes == 0) return;
  std::size_t end = 0;
  const auto behind = [&](std::size_t size_bytes) {
    const std::size_t begin = end;
    end += (size_bytes + k_alignment - 1) / k_alignment * k_alignment;
    return begin;
  };
  behind(changes * sizeof(std::uint16_t));
  packed_.contexts = behind(changes);
  for (Group& group : groups_) group.steps = behind(std::size_t{group.changes} * group.type.width_bytes);
  packed_.fetched_end = end;
  for (Group& group : groups_) {
    if (group.changes == 0) continue;
    group.members = behind(group.block_count * k_members_bytes);
    group.ranks = behind(std::size_t{group.changes} * sizeof(std::uint16_t));
    group.classes = behind(group.changes);
  }
  packed_.end = end;
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
    const std::uint32_t width = group.type.width_bytes;
    const DevicePacking arrays[] = {
        {from.positions, packed, sizeof(std::uint16_t)},
        {from.contexts, packed + packed_.contexts, sizeof(std::uint8_t)},
        {from.steps, packed + (group.steps - std::size_t{group.first_change} * width), width}};
    pack(group, arrays);
  }
  download(0, packed_.fetched_end);
}

void DeviceComparison::pack(const Group& group, std::span<const DevicePacking> arrays) {
  std::uint8_t* const lists = lists_.begin();
  stream_->pack(arrays, words_at(lists, k_fetched_counts) + group.first_block,
                words_at(lists, k_starts) + group.first_block, group.block_count);
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
  return {blocks_[index].count,
          {reinterpret_cast<const std::uint16_t*>(packed) + first, changes},
          packed + group.steps + (first - group.first_change) * group.type.width_bytes,
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
  std::uint8_t* const packed = packed_on_device_.begin();
  stream_->rank_changes(group.type, blocks_on_device() + group.first_block, group.block_count, bounds, from,
                        ranks + first, classes, words_at(packed, group.members));
  const DevicePacking arrays[] = {
      {ranks + first, packed + (group.ranks - group.first_change * sizeof(std::uint16_t)), sizeof(std::uint16_t)},
      {classes, packed + (group.classes - group.first_change), sizeof(std::uint8_t)}};
  pack(group, arrays);
  download(group.members, group.classes + group.changes - group.members);
}

RankedChanges DeviceComparison::ranked(std::size_t group_index, std::size_t block) const {
  const Group& group = groups_[group_index];
  const ComparedBlock found = compared(group_index, block);
  const std::size_t first = starts_[group.first_block + block] - group.first_change;  // of the group's changes
  std::uint8_t* const packed = packed_on_host_.begin();
  return {found.positions, found.steps, reinterpret_cast<const std::uint16_t*>(packed + group.ranks) + first,
          packed + group.classes + first, words_at(packed, group.members + block * k_members_bytes)};
}

}  // namespace wdelta
