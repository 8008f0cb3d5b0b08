// SPDX-License-Identifier: Apache-2.0
#include "engine/device_comparison.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>

namespace wdelta {
namespace {

// Of a group in which more than one in so many elements changes, the bytes are looked at anyway, or nearly.
constexpr std::uint64_t k_dense = 4;

// What is packed begins at multiples of it: a word of a device.
constexpr std::size_t k_alignment = 16;

// Members of classes in a block.
constexpr std::size_t k_members_bytes = k_most_classes * sizeof(std::uint32_t);

const DeviceBlock* blocks_in(const std::uint8_t* lists) { return reinterpret_cast<const DeviceBlock*>(lists); }

std::uint32_t* words_at(std::uint8_t* lists, std::size_t offset) {
  return reinterpret_cast<std::uint32_t*>(lists + offset);
}

}  // namespace

DeviceComparison::DeviceComparison(Device& device, DeviceStream& stream, std::size_t most_blocks)
    : stream_(&stream),
      most_blocks_(most_blocks),
      lists_(device, DeviceBuffer::Place::device),
      host_lists_(device, DeviceBuffer::Place::pinned),
      positions_(device, DeviceBuffer::Place::device),
      steps_(device, DeviceBuffer::Place::device),
      contexts_(device, DeviceBuffer::Place::device),
      ranks_(device, DeviceBuffer::Place::device),
      packed_on_device_(device, DeviceBuffer::Place::device),
      packed_on_host_(device, DeviceBuffer::Place::pinned) {
  const std::size_t words_bytes = sizeof(std::uint32_t) * most_blocks;
  in_lists_.counts = sizeof(DeviceBlock) * most_blocks;
  in_lists_.fetched_counts = in_lists_.counts + words_bytes;
  in_lists_.starts = in_lists_.fetched_counts + words_bytes;
  in_lists_.end = in_lists_.starts + words_bytes;
}

void DeviceComparison::clear() {
  widest_bytes_ = 1;
  blocks_.clear();
  launches_.clear();
  groups_.clear();
  starts_.clear();
}

std::size_t DeviceComparison::begin_group(ElementType type) {
  widest_bytes_ = std::max<std::size_t>(widest_bytes_, type.width_bytes);
  const Range none{blocks_.size()};
  if (launches_.empty() || launches_.back().type != type) launches_.push_back({type, none});
  groups_.push_back({launches_.size() - 1, none});
  return groups_.size() - 1;
}

void DeviceComparison::add(const DeviceBlock& block) {
  if (room() == 0) throw Error(Fault::internal, "", "too many blocks for a device at a time");
  blocks_.push_back(block);
  ++groups_.back().all.block_count;
  ++launches_.back().all.block_count;
}

// What was found in its blocks, on the device.
DeviceChanges DeviceComparison::found(const Range& range) const {
  const std::size_t first = range.first_block * k_device_block_changes;
  // Every block has room for steps as wide as the widest of the batch: groups of different types never meet.
  return {words_at(lists_.begin(), in_lists_.counts) + range.first_block,
          reinterpret_cast<std::uint16_t*>(positions_.begin()) + first, steps_.begin() + first * widest_bytes_,
          contexts_.begin() + first};
}

void DeviceComparison::find() {
  const std::size_t room = blocks_.size() * k_device_block_changes;
  std::uint8_t* const lists = lists_.of_size(in_lists_.end);
  std::uint8_t* const host_lists = host_lists_.of_size(in_lists_.end);
  positions_.of_size(room * sizeof(std::uint16_t));
  steps_.of_size(room * widest_bytes_);
  contexts_.of_size(room);
  std::memcpy(host_lists, blocks_.data(), blocks_.size() * sizeof(DeviceBlock));
  stream_->upload(lists, host_lists, blocks_.size() * sizeof(DeviceBlock));
  for (const Launch& launch : launches_) {
    stream_->find_changes(launch.type, blocks_in(lists) + launch.all.first_block, launch.all.block_count,
                          found(launch.all));
  }
  stream_->download(host_lists + in_lists_.counts, lists + in_lists_.counts, blocks_.size() * sizeof(std::uint32_t));
}

// Which groups are, and where their changes go.
void DeviceComparison::choose_fetched() {
  const std::uint32_t* const counts = words_at(host_lists_.begin(), in_lists_.counts);
  std::uint32_t* const fetched_counts = words_at(host_lists_.begin(), in_lists_.fetched_counts);
  std::uint32_t next_change = 0;
  starts_.clear();
  for (Group& group : groups_) {
    std::uint64_t elements = 0;
    std::uint64_t changes = 0;
    for (std::size_t i = group.all.first_block; i < group.all.end_block(); ++i) {
      if (counts[i] > blocks_[i].count) throw Error(Fault::local, "", "the device counts more changes than elements");
      elements += blocks_[i].count;
      changes += counts[i];
    }
    group.is_fetched = changes <= elements / k_dense;
    group.all.first_change = next_change;
    Range& launched = launches_[group.launch].all;
    if (launched.first_block == group.all.first_block) launched.first_change = next_change;
    for (std::size_t i = group.all.first_block; i < group.all.end_block(); ++i) {
      fetched_counts[i] = group.is_fetched ? counts[i] : 0;
      starts_.push_back(next_change);
      next_change += fetched_counts[i];
    }
    group.all.changes = next_change - group.all.first_change;
    launched.changes = next_change - launched.first_change;
  }
  std::ranges::copy(starts_, words_at(host_lists_.begin(), in_lists_.starts));
  lay_out(next_change);
}

// Kernels are told where the first change of the batch would lie, and count from there: positions, contexts and steps
// stand in this order so that no launch's steps, up to 4 bytes each, would begin before the memory does.
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
  for (Launch& launch : launches_) launch.steps = behind(std::size_t{launch.all.changes} * launch.type.width_bytes);
  packed_.fetched_end = end;
  for (Group& group : groups_) {
    if (group.all.changes == 0) continue;
    group.members = behind(group.all.block_count * k_members_bytes);
    group.ranks = behind(std::size_t{group.all.changes} * sizeof(std::uint16_t));
    group.classes = behind(group.all.changes);
  }
  packed_.end = end;
}

void DeviceComparison::fetch() {
  choose_fetched();
  if (packed_.end == 0) return;
  std::uint8_t* const lists = lists_.begin();
  stream_->upload(lists + in_lists_.fetched_counts, host_lists_.begin() + in_lists_.fetched_counts,
                  in_lists_.end - in_lists_.fetched_counts);
  std::uint8_t* const packed = packed_on_device_.of_size(packed_.end);
  packed_on_host_.of_size(packed_.end);
  for (const Launch& launch : launches_) {
    if (launch.all.changes == 0) continue;
    const DeviceChanges from = found(launch.all);
    const std::uint32_t width = launch.type.width_bytes;
    const DevicePacking arrays[] = {
        {from.positions, packed, sizeof(std::uint16_t)},
        {from.contexts, packed + packed_.contexts, sizeof(std::uint8_t)},
        {from.steps, packed + (launch.steps - std::size_t{launch.all.first_change} * width), width}};
    pack(launch.all, arrays);
  }
  download(0, packed_.fetched_end);
}

void DeviceComparison::pack(const Range& range, std::span<const DevicePacking> arrays) {
  std::uint8_t* const lists = lists_.begin();
  stream_->pack(arrays, words_at(lists, in_lists_.fetched_counts) + range.first_block,
                words_at(lists, in_lists_.starts) + range.first_block, range.block_count);
}

void DeviceComparison::download(std::size_t offset, std::size_t size_bytes) {
  stream_->download(packed_on_host_.begin() + offset, packed_on_device_.begin() + offset, size_bytes);
}

ComparedBlock DeviceComparison::compared(std::size_t group_index, std::size_t block) const {
  const Group& group = groups_[group_index];
  const Launch& launch = launches_[group.launch];
  const std::size_t index = group.all.first_block + block;
  const std::size_t first = starts_[index];
  const std::uint8_t* const packed = packed_on_host_.begin();
  const std::uint32_t changes = words_at(host_lists_.begin(), in_lists_.fetched_counts)[index];
  if (changes == 0) return {blocks_[index].count, {}, nullptr, nullptr};
  return {blocks_[index].count,
          {reinterpret_cast<const std::uint16_t*>(packed) + first, changes},
          packed + launch.steps + (first - launch.all.first_change) * launch.type.width_bytes,
          packed + packed_.contexts + first};
}

void DeviceComparison::rank(std::size_t group_index, const ClassBounds& bounds) {
  const Group& group = groups_[group_index];
  const Range& all = group.all;
  if (all.changes == 0) return;
  const std::size_t room = all.block_count * k_device_block_changes;
  auto* const ranks = reinterpret_cast<std::uint16_t*>(ranks_.of_size(room * sizeof(std::uint16_t)));
  DeviceChanges from = found(all);
  std::uint8_t* const classes = from.contexts;
  from.contexts = nullptr;
  std::uint8_t* const packed = packed_on_device_.begin();
  stream_->rank_changes(type_of(group), blocks_in(lists_.begin()) + all.first_block, all.block_count, bounds, from,
                        ranks, classes, words_at(packed, group.members));
  const DevicePacking arrays[] = {
      {ranks, packed + (group.ranks - all.first_change * sizeof(std::uint16_t)), sizeof(std::uint16_t)},
      {classes, packed + (group.classes - all.first_change), sizeof(std::uint8_t)}};
  pack(all, arrays);
  download(group.members, group.classes + all.changes - group.members);
}

RankedChanges DeviceComparison::ranked(std::size_t group_index, std::size_t block) const {
  const Group& group = groups_[group_index];
  const ComparedBlock found = compared(group_index, block);
  const std::size_t first = starts_[group.all.first_block + block] - group.all.first_change;  // of the group's changes
  std::uint8_t* const packed = packed_on_host_.begin();
  return {found.positions, found.steps, reinterpret_cast<const std::uint16_t*>(packed + group.ranks) + first,
          packed + group.classes + first, words_at(packed, group.members + block * k_members_bytes)};
}

}  // namespace wdelta
