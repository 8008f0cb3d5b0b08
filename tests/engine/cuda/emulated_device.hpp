// SPDX-License-Identifier: Apache-2.0
// A device for machines without one: the kernels of lib/engine/cuda, compiled for the host.
#pragma once

#include "engine/cuda/emulated_memory.hpp"
#include "engine/cuda/thread_block.hpp"
#include "engine/device.hpp"
#include "engine/device_memories.hpp"
#include "engine/device_streams.hpp"
#include "engine/host_pins.hpp"

#include <functional>
#include <mutex>
#include <vector>

namespace wdelta::testing {

/// Stricter than a device: nothing is done before somebody waits for it, and what nobody waits for never is; the host
/// cannot touch device memory, copies must lie in it, and what is written outside is found. Slower by far.
class EmulatedDevice final : public Device {
 public:
  static constexpr std::uint64_t k_memory_bytes = std::uint64_t{4} << 30;
  explicit EmulatedDevice(std::uint64_t memory_bytes = k_memory_bytes)
      : memory_bytes_(memory_bytes), memories_(memory_bytes) {}

  const std::string& name() const override { return name_; }
  std::uint64_t free_bytes() const override { return memory_bytes_ - device_bytes(); }
  std::unique_ptr<DeviceStream> make_stream() override;
  /// `native` means nothing here.
  std::unique_ptr<DeviceStream> stream_of(void* native) override;
  DeviceStreams& streams() override { return streams_; }
  DeviceMemories& memories() override { return borrowed_; }
  HostPins& pins() override { return pins_; }
  std::unique_ptr<DeviceMemory> allocate(std::size_t size_bytes) override;
  std::unique_ptr<DeviceMemory> allocate_pinned(std::size_t size_bytes) override;

  /// From now on whatever is waited for fails, as on a device that fell off its bus.
  void lose();
  std::uint64_t device_bytes() const;
  std::uint64_t most_device_bytes() const;
  std::uint64_t launches() const;

 protected:
  bool pin(std::span<std::uint8_t> memory) override { return memory.data() != nullptr; }
  void unpin(std::span<std::uint8_t>) override {}

 private:
  class Memory;
  class Queue;

  const std::string name_ = "emulated device";
  const std::uint64_t memory_bytes_;
  mutable std::mutex mutex_;  // one queue works at a time
  EmulatedMemories memories_;
  ThreadBlock thread_block_;
  std::vector<std::uint8_t> shared_;
  bool is_lost_ = false;
  std::uint64_t launches_ = 0;
  DeviceMemories borrowed_{*this, DeviceMemories::Spare::freed};  // so that nobody gets what another still uses
  HostPins pins_{*this};
  DeviceStreams streams_{*this};  // the first to go: they are of what is above
};

}  // namespace wdelta::testing
