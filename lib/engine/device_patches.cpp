// SPDX-License-Identifier: Apache-2.0
#include "engine/device_patches.hpp"

#include <algorithm>
#include <cstring>

namespace wdelta {
namespace {

constexpr std::size_t k_flip_words = k_block_elements / 64;
constexpr std::size_t k_alignment = 256;

std::size_t aligned(std::size_t size_bytes) { return (size_bytes + k_alignment - 1) / k_alignment * k_alignment; }

}  // namespace

DevicePatches::Pair::Pair(Device& of, std::size_t room_bytes)
    : device(of, DeviceBuffer::Place::device), host(of, DeviceBuffer::Place::pinned) {
  device.of_size(room_bytes + k_alignment * k_most_patches);
  host.of_size(room_bytes + k_alignment * k_most_patches);
}

void DevicePatches::Pair::append(const void* from, std::size_t more_bytes) {
  std::memcpy(host.begin() + size_bytes, from, more_bytes);
  size_bytes += more_bytes;
}

std::uint8_t* DevicePatches::Pair::upload(DeviceStream& stream) {
  std::uint8_t* const begin = device.begin() + launched_bytes;
  if (size_bytes != launched_bytes) stream.upload(begin, host.begin() + launched_bytes, size_bytes - launched_bytes);
  launched_bytes = size_bytes = aligned(size_bytes);
  return begin;
}

DevicePatches::DevicePatches(Device& device)
    : patches_(device, k_most_patches * sizeof(DevicePatch)),
      ranks_(device, k_most_changes * sizeof(std::uint32_t)),
      moves_(device, k_most_changes * sizeof(std::uint32_t)),
      flips_(device, k_most_patches * k_flip_words * sizeof(std::uint64_t)) {}

void DevicePatches::clear() {
  for (Pair* const pair : {&patches_, &ranks_, &moves_, &flips_}) pair->launched_bytes = pair->size_bytes = 0;
  bounds_.clear();
  added_.clear();
  failed_.reset();
  group_ = nullptr;
  changes_ = flip_words_ = 0;
}

void DevicePatches::add(const IndexRange& blocks, const ClassedChanges& changes, void* elements, std::size_t number,
                        DeviceStream& stream) {
  const GroupShape& shape = group_->shape();
  DevicePatch patch{elements, static_cast<std::uint32_t>(shape.elements_of(blocks)), 0, {}, 0, 0};
  std::uint32_t count = 0;
  for (std::uint32_t k = 0; k < k_most_classes; ++k) count += patch.class_changes[k] = changes.class_changes[k];
  const std::uint64_t flip_words = (blocks.end - blocks.first) * k_flip_words;
  if (added_.size() == k_most_patches || ranks_.size_bytes / sizeof(std::uint32_t) + count > k_most_changes ||
      flips_.size_bytes / sizeof(std::uint64_t) + flip_words > k_most_patches * k_flip_words) {
    end(stream);
    take_statuses(stream);
  }
  patch.first_change = changes_;
  patch.first_flip = flip_words_;
  for (std::uint64_t block = blocks.first; block < blocks.end; ++block) {
    const auto element_count = static_cast<std::uint32_t>(shape.elements_of({block, block + 1}));
    const std::uint64_t* const flips = expanded_.expand(0, *group_, block, element_count);
    if (flips == nullptr) break;
    flips_.append(flips, k_flip_words * sizeof(std::uint64_t));
    flip_words_ += k_flip_words;
  }
  ranks_.append(changes.ranks, count * sizeof(std::uint32_t));
  moves_.append(changes.moves, std::size_t{count} * group_->shape().type.width_bytes);
  const Strips strips = shape.strips();
  const bool is_whole = strips.blocks_of(strips.of(blocks.first)).end == blocks.end;
  added_.push_back({number, patches_.size_bytes, is_whole});
  patches_.append(&patch, sizeof(patch));
  changes_ += count;
}

void DevicePatches::end(DeviceStream& stream) {
  const std::size_t patch_bytes = patches_.size_bytes - patches_.launched_bytes;
  if (patch_bytes == 0) return;
  const GroupParameters& parameters = group_->parameters();
  bounds_.push_back(parameters.bounds);
  std::uint8_t* const statuses = patches_.host.begin() + patches_.launched_bytes;
  std::uint8_t* const patches = patches_.upload(stream);
  const auto* const ranks = reinterpret_cast<const std::uint32_t*>(ranks_.upload(stream));
  const std::uint8_t* const moves = moves_.upload(stream);
  const auto* const flips = reinterpret_cast<const std::uint64_t*>(flips_.upload(stream));
  stream.patch(group_->shape().type, reinterpret_cast<DevicePatch*>(patches), patch_bytes / sizeof(DevicePatch),
               bounds_.back(), ranks, moves, parameters.mask.is_empty() ? nullptr : flips);
  stream.download(statuses, patches, patch_bytes);
  changes_ = flip_words_ = 0;
}

// The memory is free again then.
void DevicePatches::take_statuses(DeviceStream& stream) {
  stream.wait();
  for (const Added& added : added_) {
    DevicePatch patch;
    std::memcpy(&patch, patches_.host.begin() + added.begin, sizeof(patch));
    if (patch.status != 0 && added.is_whole && !failed_) failed_ = added.number;
  }
  const GroupTables* const group = group_;
  const auto failed = failed_;
  clear();
  group_ = group;
  failed_ = failed;
}

std::optional<std::size_t> DevicePatches::finish(DeviceStream& stream) {
  take_statuses(stream);
  const auto failed = failed_;
  clear();
  return failed;
}

}  // namespace wdelta
