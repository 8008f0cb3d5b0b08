// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <span>
#include <utility>

namespace wdelta {

/// Which memory of the host is pinned for a device: Device::pins(). A device copies to it and from it by itself, as
/// fast as the bus allows; from other memory it needs threads of the host's that copy too. Thread-safe.
class HostPins {
 public:
  /// The device must outlive it, and it every pin.
  explicit HostPins(Device& device) : device_(&device) {}

  /// Memory is pinned while this lives, and must stay as long. Nothing may be under way with it when this goes.
  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept : of_(std::exchange(other.of_, nullptr)), memory_(other.memory_) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    ~Pin();
    explicit operator bool() const { return of_ != nullptr; }

   private:
    friend HostPins;
    Pin(HostPins& of, std::span<std::uint8_t> memory) : of_(&of), memory_(memory) {}

    HostPins* of_ = nullptr;
    std::span<std::uint8_t> memory_;
  };

  /// Nothing where the driver does not pin it. Pages that were never touched are made here, by one thread.
  Pin pin(std::span<std::uint8_t> memory);
  /// Whether all of it lies in memory that one pin holds.
  bool holds(const void* begin, std::size_t size_bytes) const;

 private:
  void unpin(std::span<std::uint8_t> memory);

  Device* device_;
  mutable std::shared_mutex mutex_;
  std::map<const std::uint8_t*, std::size_t> sizes_;  // by where they begin
};

}  // namespace wdelta
