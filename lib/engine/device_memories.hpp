// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace wdelta {

/// Memory that work borrows for a while: Device::memories(). To get some takes a driver as long as to copy some MiB,
/// and to free some makes it wait for all that the device is doing, a trainer's work too; so what is given back is
/// given out again. Thread-safe.
class DeviceMemories {
 public:
  enum class Place { device, pinned };  ///< pinned: of the host
  enum class Spare { kept, freed };     ///< freed: for a device that watches who uses what

  /// The device must outlive it.
  explicit DeviceMemories(Device& device, Spare spare = Spare::kept) : device_(&device), spare_(spare) {}

  /// How much there is of the device's at this moment: what is free there, and what was given back.
  std::uint64_t room_bytes();
  /// At least so many bytes, and not more than twice as many.
  std::unique_ptr<DeviceMemory> take(Place place, std::size_t size_bytes);
  /// Nothing may be under way with it.
  void give_back(Place place, std::unique_ptr<DeviceMemory> memory);

  /// One who is going to borrow again: when the last one goes, what nobody has is freed. Where there was none it stays,
  /// for a program that ends when it is done.
  class User {
   public:
    explicit User(DeviceMemories& of);
    ~User();
    User(const User&) = delete;
    User& operator=(const User&) = delete;

   private:
    DeviceMemories& of_;
  };

 private:
  using Spares = std::vector<std::unique_ptr<DeviceMemory>>;  // smallest first
  Spares& spares(Place place) { return place == Place::device ? on_device_ : pinned_; }
  std::unique_ptr<DeviceMemory> spare_of(Place place, std::size_t size_bytes);
  std::unique_ptr<DeviceMemory> allocate(Place place, std::size_t size_bytes);

  Device* device_;
  Spare spare_;
  std::mutex mutex_;
  std::size_t users_ = 0;
  Spares on_device_;
  Spares pinned_;
};

}  // namespace wdelta
