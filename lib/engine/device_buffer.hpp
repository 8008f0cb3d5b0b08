// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace wdelta {

/// Memory of a device, or of the host pinned for it, that grows when more is asked for and keeps what it has: taking
/// some is slow.
class DeviceBuffer {
 public:
  enum class Place { device, pinned };

  /// `device` must outlive it.
  DeviceBuffer(Device& device, Place place) : device_(&device), place_(place) {}

  /// So many bytes; what was there is lost when it has to grow. Nothing may be under way with them then.
  std::uint8_t* of_size(std::size_t size_bytes) {
    if (memory_ == nullptr || memory_->size_bytes() < size_bytes) {
      // A little more than asked for, so that a bit more next time is there.
      const std::size_t room = std::max(k_least_bytes, (size_bytes + size_bytes / 8 + 4095) / 4096 * 4096);
      memory_.reset();
      memory_ = place_ == Place::device ? device_->allocate(room) : device_->allocate_pinned(room);
    }
    return begin();
  }
  std::uint8_t* begin() const { return memory_ == nullptr ? nullptr : static_cast<std::uint8_t*>(memory_->begin()); }

 private:
  static constexpr std::size_t k_least_bytes = 4096;
  Device* device_;
  Place place_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace wdelta
