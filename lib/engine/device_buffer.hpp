// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device_memories.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace wdelta {

/// Memory of a device, or of the host pinned for it, that grows when more is asked for and keeps what it has; borrowed
/// from Device::memories(). Nothing may be under way with it when it grows or goes: settle() its stream first.
class DeviceBuffer {
 public:
  using Place = DeviceMemories::Place;

  /// `device` must outlive it.
  DeviceBuffer(Device& device, Place place) : device_(&device), place_(place) {}
  ~DeviceBuffer() { give_back(); }
  DeviceBuffer(DeviceBuffer&&) = default;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(place_, other.place_);
    std::swap(memory_, other.memory_);
    return *this;
  }

  /// So many bytes; what was there is lost when it has to grow.
  std::uint8_t* of_size(std::size_t size_bytes) {
    if (memory_ == nullptr || memory_->size_bytes() < size_bytes) {
      // A little more than asked for, so that a bit more next time is there.
      const std::size_t room = std::max(k_least_bytes, (size_bytes + size_bytes / 8 + 4095) / 4096 * 4096);
      give_back();
      memory_ = device_->memories().take(place_, room);
    }
    return begin();
  }
  std::uint8_t* begin() const { return memory_ == nullptr ? nullptr : static_cast<std::uint8_t*>(memory_->begin()); }

 private:
  void give_back() {
    if (memory_ != nullptr) device_->memories().give_back(place_, std::move(memory_));
  }

  static constexpr std::size_t k_least_bytes = 4096;
  Device* device_;
  Place place_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace wdelta
