// SPDX-License-Identifier: Apache-2.0
#include "engine/device_patches.hpp"

#include <algorithm>
#include <cstring>

namespace wdelta {
namespace {

constexpr std::size_t k_flip_words = k_block_elements / 64;
constexpr std::size_t k_alignment = 256;
constexpr std::size_t k_most_patches = 1024;
constexpr std::size_t k_room_bytes = std::size_t{4} << 20;
constexpr std::size_t k_status_bytes = k_most_patches * sizeof(std::uint32_t);
// So that any strip has room, and no device refuses it for its size.
static_assert(k_most_patch_changes >= k_most_batch_changes);
static_assert(2 * k_most_batch_changes * sizeof(std::uint32_t) + k_most_blocks_in_strip * k_flip_words * 8 +
                  4 * k_alignment <=
              k_room_bytes);

std::size_t aligned(std::size_t size_bytes) { return (size_bytes + k_alignment - 1) / k_alignment * k_alignment; }

template <class T>
void append(std::vector<T>& to, const void* from, std::size_t count) {
  const auto* const begin = static_cast<const T*>(from);
  to.insert(to.end(), begin, begin + count);
}

template <class T>
void put(std::uint8_t* to, const std::vector<T>& from) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
}

}  // namespace

DevicePatches::DevicePatches(Device& device)
    : device_(device, DeviceBuffer::Place::device), host_(device, DeviceBuffer::Place::pinned) {
  device_.of_size(k_room_bytes + k_status_bytes);
  host_.of_size(k_room_bytes + k_status_bytes);
}

void DevicePatches::clear() {
  launched_bytes_ = 0;
  added_.clear();
  failed_.reset();
  patches_.clear();
  ranks_.clear();
  moves_.clear();
  flips_.clear();
}

DevicePatches::Arrays DevicePatches::arrays_of(std::size_t patches, std::size_t changes, std::size_t flip_words) const {
  Arrays arrays;
  arrays.ranks = aligned(patches * sizeof(DevicePatch));
  arrays.moves = arrays.ranks + aligned(changes * sizeof(std::uint32_t));
  arrays.flips = arrays.moves + aligned(changes * type_.width_bytes);
  arrays.end = arrays.flips + aligned(flip_words * sizeof(std::uint64_t));
  return arrays;
}

void DevicePatches::add(const GroupTables& group, const IndexRange& blocks, const ClassedChanges& changes,
                        void* elements, std::size_t number, DeviceStream& stream) {
  const GroupShape& shape = group.shape();
  if (!patches_.empty() && shape.type != type_) end(stream);
  type_ = shape.type;
  DevicePatch patch{};
  patch.elements = elements;
  patch.count = static_cast<std::uint32_t>(shape.elements_of(blocks));
  std::size_t count = 0;
  for (std::uint32_t k = 0; k < k_most_classes; ++k) count += patch.class_changes[k] = changes.class_changes[k];
  const GroupParameters& parameters = group.parameters();
  std::ranges::copy(parameters.bounds, patch.bounds);
  patch.bound_count = static_cast<std::uint8_t>(parameters.bounds.size());
  const bool is_masked = !parameters.mask.is_empty();
  const std::size_t flip_words = is_masked ? (blocks.end - blocks.first) * k_flip_words : 0;
  const Arrays with_it = arrays_of(patches_.size() + 1, ranks_.size() + count, flips_.size() + flip_words);
  if (added_.size() == k_most_patches || launched_bytes_ + with_it.end > k_room_bytes) {
    end(stream);
    take_statuses(stream);
  }
  patch.first_change = static_cast<std::uint32_t>(ranks_.size());
  patch.first_flip = is_masked ? static_cast<std::uint32_t>(flips_.size()) : k_no_flips;
  for (std::uint64_t block = blocks.first; is_masked && block < blocks.end; ++block) {
    const std::uint64_t begin = block * k_block_elements;
    append(flips_, expanded_.expand(0, group, {begin, begin + shape.elements_of({block, block + 1})}), k_flip_words);
  }
  append(ranks_, changes.ranks, count);
  append(moves_, changes.moves, count * type_.width_bytes);
  patches_.push_back(patch);
  const Strips strips = shape.strips();
  added_.push_back({number, strips.blocks_of(strips.of(blocks.first)).end == blocks.end});
}

void DevicePatches::end(DeviceStream& stream) {
  if (patches_.empty()) return;
  const Arrays arrays = arrays_of(patches_.size(), ranks_.size(), flips_.size());
  std::uint8_t* const host = host_.begin() + launched_bytes_;
  put(host, patches_);
  put(host + arrays.ranks, ranks_);
  put(host + arrays.moves, moves_);
  put(host + arrays.flips, flips_);
  std::uint8_t* const there = device_.begin() + launched_bytes_;
  stream.upload(there, host, arrays.end);
  auto* const statuses = reinterpret_cast<std::uint32_t*>(device_.begin() + k_room_bytes);
  stream.patch(type_, reinterpret_cast<const DevicePatch*>(there), patches_.size(),
               reinterpret_cast<const std::uint32_t*>(there + arrays.ranks), there + arrays.moves,
               reinterpret_cast<const std::uint64_t*>(there + arrays.flips),
               statuses + (added_.size() - patches_.size()));
  launched_bytes_ += arrays.end;
  patches_.clear();
  ranks_.clear();
  moves_.clear();
  flips_.clear();
}

// The memory is free again then.
void DevicePatches::take_statuses(DeviceStream& stream) {
  auto* const statuses = reinterpret_cast<std::uint32_t*>(host_.begin() + k_room_bytes);
  stream.download(statuses, device_.begin() + k_room_bytes, added_.size() * sizeof(*statuses));
  stream.wait();
  for (std::size_t i = 0; i < added_.size(); ++i) {
    if (statuses[i] != 0 && added_[i].is_whole && !failed_) failed_ = added_[i].number;
  }
  launched_bytes_ = 0;
  added_.clear();
}

std::optional<std::size_t> DevicePatches::finish(DeviceStream& stream) {
  take_statuses(stream);
  const auto failed = failed_;
  clear();
  return failed;
}

}  // namespace wdelta
