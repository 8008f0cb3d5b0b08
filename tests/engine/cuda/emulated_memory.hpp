// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace wdelta::testing {

/// Memory of an emulated device: pages of their own between pages that nobody may touch, closed to the host except
/// while the device works. Ends, in whole words of 16 bytes, at the forbidden page if its size is a multiple of 256;
/// what is written behind it otherwise is found when the device is waited for. Freed memory stays forbidden for long.
class EmulatedMemories {
 public:
  explicit EmulatedMemories(std::uint64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  ~EmulatedMemories();
  EmulatedMemories(const EmulatedMemories&) = delete;
  EmulatedMemories& operator=(const EmulatedMemories&) = delete;

  enum class Kind { device, pinned };
  /// Throws Error(local) where there is no more.
  void* allocate(std::size_t size_bytes, Kind kind);
  void release(void* begin);
  /// Whether all of it lies in one piece of device memory.
  bool holds(const void* begin, std::size_t size_bytes) const;
  std::uint64_t device_bytes() const { return device_bytes_; }
  std::uint64_t most_device_bytes() const { return most_device_bytes_; }

  /// Device memory is open while this lives.
  class Work {
   public:
    explicit Work(EmulatedMemories& of);
    ~Work();
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    EmulatedMemories& of_;
  };
  /// Throws Error(internal) where something was written behind a piece of memory, or before.
  void check() const;

 private:
  struct Mapping {
    std::uint8_t* begin;
    std::size_t size_bytes;
  };
  struct Piece {
    Mapping mapping;  // with the forbidden pages
    std::size_t size_bytes;
    Kind kind;
  };
  void protect(int protection) const;

  const std::uint64_t capacity_bytes_;
  std::map<const std::uint8_t*, Piece> pieces_;
  std::deque<Mapping> freed_;
  std::uint64_t device_bytes_ = 0;
  std::uint64_t most_device_bytes_ = 0;
};

}  // namespace wdelta::testing
