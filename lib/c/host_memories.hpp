// SPDX-License-Identifier: Apache-2.0
// Memory of the host for copies of tensors.
#pragma once

#include "base/buffer.hpp"
#include "base/execution.hpp"
#include "engine/device.hpp"
#include "engine/host_pins.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace wdelta {

/// In huge pages where it is large.
class HostMemory {
 public:
  /// Throws bad_alloc where there is not so much.
  explicit HostMemory(std::size_t size_bytes);

  std::span<std::uint8_t> bytes() const { return bytes_; }
  /// Whether the device copies to it by itself: it is pinned then, from the first time on that this is asked, when all
  /// that was there is lost. What is small is not, as that would take as long as to copy it.
  bool is_pinned_for(Device& device, const Execution& execution);

 private:
  Buffer memory_;
  std::span<std::uint8_t> bytes_;
  Device* asked_for_ = nullptr;
  HostPins::Pin pin_;  // the first to go
};

/// Memory that copies had, for those to come: a push then waits neither for the system to make pages nor for a driver
/// to pin them. Thread-safe.
class HostMemories {
 public:
  /// Throws bad_alloc where there is not so much.
  std::unique_ptr<HostMemory> take(std::size_t size_bytes);
  /// Where there is no memory to remember it by, it is freed.
  void give_back(std::unique_ptr<HostMemory> memory) noexcept;
  /// Frees what nobody took since the last time.
  void free_unused();
  void free_all();

 private:
  struct Spare {
    std::unique_ptr<HostMemory> memory;
    bool is_old = false;  // it was there the last time
  };
  using Spares = std::multimap<std::size_t, Spare>;  // by size

  std::mutex mutex_;
  Spares spares_;
};

}  // namespace wdelta
