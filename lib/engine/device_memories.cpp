// SPDX-License-Identifier: Apache-2.0
#include "engine/device_memories.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

std::uint64_t DeviceMemories::room_bytes() {
  const std::lock_guard lock(mutex_);
  std::uint64_t room_bytes = device_->free_bytes();
  for (const auto& spare : on_device_) room_bytes += spare->size_bytes();
  return room_bytes;
}

std::unique_ptr<DeviceMemory> DeviceMemories::take(Place place, std::size_t size_bytes) {
  if (auto spare = spare_of(place, size_bytes)) return spare;
  try {
    return allocate(place, size_bytes);
  } catch (const Error&) {
    // What is too small, or too large, for this may be what is missing.
    Spares unfit;
    {
      const std::lock_guard lock(mutex_);
      unfit = std::exchange(spares(place), {});
    }
    if (unfit.empty()) throw;
    unfit.clear();
    return allocate(place, size_bytes);
  }
}

std::unique_ptr<DeviceMemory> DeviceMemories::spare_of(Place place, std::size_t size_bytes) {
  const std::lock_guard lock(mutex_);
  Spares& all = spares(place);
  const auto fit =
      std::ranges::lower_bound(all, size_bytes, {}, [](const auto& memory) { return memory->size_bytes(); });
  if (fit == all.end() || (*fit)->size_bytes() / 2 > size_bytes) return nullptr;
  auto spare = std::move(*fit);
  all.erase(fit);
  return spare;
}

std::unique_ptr<DeviceMemory> DeviceMemories::allocate(Place place, std::size_t size_bytes) {
  return place == Place::device ? device_->allocate(size_bytes) : device_->allocate_pinned(size_bytes);
}

void DeviceMemories::give_back(Place place, std::unique_ptr<DeviceMemory> memory) {
  if (spare_ == Spare::freed) return;
  const std::lock_guard lock(mutex_);
  Spares& all = spares(place);
  const auto behind =
      std::ranges::upper_bound(all, memory->size_bytes(), {}, [](const auto& each) { return each->size_bytes(); });
  all.insert(behind, std::move(memory));
}

DeviceMemories::User::User(DeviceMemories& of) : of_(of) {
  const std::lock_guard lock(of_.mutex_);
  ++of_.users_;
}

DeviceMemories::User::~User() {
  const std::lock_guard lock(of_.mutex_);
  if (--of_.users_ > 0) return;
  of_.on_device_.clear();
  of_.pinned_.clear();
}

}  // namespace wdelta
