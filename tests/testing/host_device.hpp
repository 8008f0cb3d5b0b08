// SPDX-License-Identifier: Apache-2.0
// A device that is the host itself, over the scalar kernels. Nothing is done before wait(): who forgets to wait reads
// rubbish, and who changes memory too early spoils what was asked for.
#pragma once

#include "base/blake3_kernel.hpp"
#include "base/blake3_node.hpp"
#include "base/error.hpp"
#include "engine/class_map.hpp"
#include "engine/device.hpp"
#include "engine/device_memories.hpp"
#include "engine/device_streams.hpp"
#include "engine/engine.hpp"
#include "engine/host_pins.hpp"
#include "testing/apply_strip.hpp"

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace wdelta::testing {

inline constexpr std::size_t k_mib = std::size_t{1} << 20;

/// What crossed between the host and its device, and how much of the device was taken.
struct DeviceTraffic {
  std::atomic<std::uint64_t> uploaded_bytes = 0;
  std::atomic<std::uint64_t> downloaded_bytes = 0;
  std::atomic<std::uint64_t> hashed_bytes = 0;
  std::atomic<std::uint64_t> patches = 0;  ///< launches
  std::atomic<std::uint64_t> patched_blocks = 0;
  std::atomic<std::uint64_t> masked_blocks = 0;  ///< of those, with a sign mask
  std::atomic<std::int64_t> held_bytes = 0;
  std::atomic<std::int64_t> most_held_bytes = 0;
  std::int64_t room_bytes = std::int64_t{4} << 30;
  std::atomic<std::uint64_t> pinned_bytes = 0;  ///< of memory that others have: HostPins
  bool can_pin = true;
  std::atomic<std::uint64_t> waits = 0;
  std::atomic<std::uint64_t> waits_until_lost = UINT64_MAX;  ///< then the device fails

  void forget() {
    uploaded_bytes = downloaded_bytes = hashed_bytes = patches = patched_blocks = masked_blocks = waits = 0;
  }
};

class HostDeviceMemory final : public DeviceMemory {
 public:
  HostDeviceMemory(std::size_t size_bytes, DeviceTraffic& traffic) : size_bytes_(size_bytes), traffic_(&traffic) {
    const std::int64_t held = traffic_->held_bytes += static_cast<std::int64_t>(size_bytes);
    if (held > traffic_->room_bytes) {
      traffic_->held_bytes -= static_cast<std::int64_t>(size_bytes);
      throw Error(Fault::local, "host", std::to_string(size_bytes) + " bytes of device memory: out of memory");
    }
    std::int64_t most = traffic_->most_held_bytes;
    while (held > most && !traffic_->most_held_bytes.compare_exchange_weak(most, held)) continue;
    memory_ = std::make_unique_for_overwrite<std::uint8_t[]>(size_bytes + 256);
    std::memset(memory_.get(), 0xa5, size_bytes + 256);
  }
  ~HostDeviceMemory() override { traffic_->held_bytes -= static_cast<std::int64_t>(size_bytes_); }
  void* begin() const override {
    return memory_.get() + (256 - reinterpret_cast<std::uintptr_t>(memory_.get()) % 256) % 256;
  }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  std::size_t size_bytes_;
  DeviceTraffic* traffic_;
  std::unique_ptr<std::uint8_t[]> memory_;
};

class HostDeviceStream final : public DeviceStream {
 public:
  explicit HostDeviceStream(DeviceTraffic& traffic) : traffic_(&traffic) {}

  void upload(void* to, const void* from, std::size_t size_bytes) override {
    traffic_->uploaded_bytes += size_bytes;
    copy(to, from, size_bytes);
  }
  void download(void* to, const void* from, std::size_t size_bytes) override {
    traffic_->downloaded_bytes += size_bytes;
    copy(to, from, size_bytes);
  }
  void copy(void* to, const void* from, std::size_t size_bytes) override {
    queue_.emplace_back([=] { std::memcpy(to, from, size_bytes); });
  }
  void fill_zeros(void* to, std::size_t size_bytes) override {
    queue_.emplace_back([=] { std::memset(to, 0, size_bytes); });
  }
  void wait() override {
    if (traffic_->waits++ >= traffic_->waits_until_lost) {
      throw Error(Fault::local, "host", "the device was lost", "run without it: --engine auto");
    }
    const auto queue = std::exchange(queue_, {});
    for (const auto& work : queue) work();
  }

  void find_changes(ElementType type, const DeviceBlock* blocks, std::size_t block_count,
                    const DeviceChanges& found) override {
    queue_.emplace_back([=] {
      std::vector<std::uint16_t> positions(k_block_elements + 64);
      std::vector<std::uint8_t> steps((k_block_elements + 64) * 8);
      for (std::size_t b = 0; b < block_count; ++b) {
        const std::size_t first = b * k_device_block_changes;
        const std::uint32_t changes =
            kernels(type).find_changes(blocks[b].base, blocks[b].next, blocks[b].count, positions.data(), steps.data());
        found.counts[b] = changes;
        std::copy_n(positions.data(), changes, found.positions + first);
        std::memcpy(static_cast<std::uint8_t*>(found.steps) + first * type.width_bytes, steps.data(),
                    changes * std::size_t{type.width_bytes});
        for (std::size_t i = 0; i < changes && found.contexts != nullptr; ++i) {
          std::uint64_t element = 0;
          std::memcpy(&element, static_cast<const std::uint8_t*>(blocks[b].base) + positions[i] * type.width_bytes,
                      type.width_bytes);
          found.contexts[first + i] = context_of(element << (64 - 8 * type.width_bytes), type.kind);
        }
      }
    });
  }
  void rank_changes(ElementType type, const DeviceBlock* blocks, std::size_t block_count,
                    std::span<const std::uint8_t> bounds, const DeviceChanges& found, std::uint16_t* ranks,
                    std::uint8_t* classes, std::uint32_t* members) override {
    queue_.emplace_back([=] {
      for (std::size_t b = 0; b < block_count; ++b) {
        const std::size_t first = b * k_device_block_changes;
        if (found.counts[b] == 0) continue;
        kernels(type).rank_changes(blocks[b].base, blocks[b].count, bounds.data(),
                                   static_cast<std::uint32_t>(bounds.size()), found.positions + first, found.counts[b],
                                   ranks + first, classes + first, members + b * k_most_classes);
      }
    });
  }
  void pack(std::span<const DevicePacking> arrays, const std::uint32_t* counts, const std::uint32_t* starts,
            std::size_t block_count) override {
    queue_.emplace_back([=, arrays = std::vector(arrays.begin(), arrays.end())] {
      for (const DevicePacking& array : arrays) {
        for (std::size_t b = 0; b < block_count; ++b) {
          std::memcpy(static_cast<std::uint8_t*>(array.to) + std::size_t{starts[b]} * array.width_bytes,
                      static_cast<const std::uint8_t*>(array.from) + b * k_device_block_changes * array.width_bytes,
                      std::size_t{counts[b]} * array.width_bytes);
        }
      }
    });
  }
  void patch(ElementType type, const DevicePatch* patches, std::size_t patch_count, const std::uint32_t* ranks,
             const void* moves, const std::uint64_t* flips, std::uint32_t* statuses) override {
    ++traffic_->patches;
    queue_.emplace_back([=, this] {
      for (std::size_t i = 0; i < patch_count; ++i) {
        const DevicePatch& patch = patches[i];
        const bool is_masked = patch.first_flip != k_no_flips;
        const std::uint32_t blocks = (patch.count + k_block_elements - 1) / k_block_elements;
        traffic_->patched_blocks += blocks;
        if (is_masked) traffic_->masked_blocks += blocks;
        const ClassedChanges changes = {
            patch.bounds,
            patch.bound_count,
            patch.class_changes,
            ranks + patch.first_change,
            static_cast<const std::uint8_t*>(moves) + std::size_t{patch.first_change} * type.width_bytes,
            is_masked ? flips + patch.first_flip : nullptr,
            nullptr,
            0};
        statuses[i] = apply_strip(engines().back(), type, patch.elements, patch.count, changes) ? 0 : 1;
      }
    });
  }
  void apply_changes(ElementType type, void* elements, const std::uint16_t* positions, const void* steps,
                     std::uint32_t changes) override {
    queue_.emplace_back([=] { kernels(type).apply_changes(elements, positions, steps, changes); });
  }
  void apply_changes(ElementType type, const DeviceSteps* blocks, std::size_t block_count,
                     const std::uint16_t* positions, const void* steps) override {
    queue_.emplace_back([=] {
      for (const DeviceSteps* block = blocks; block != blocks + block_count; ++block) {
        kernels(type).apply_changes(
            block->elements, positions + block->first_change,
            static_cast<const std::uint8_t*>(steps) + std::size_t{block->first_change} * type.width_bytes,
            block->changes);
      }
    });
  }
  void hash_subtrees(const void* bytes, std::size_t subtree_bytes, std::size_t subtree_count, std::uint64_t first_chunk,
                     void* scratch, std::uint32_t* values) override {
    traffic_->hashed_bytes += subtree_bytes * subtree_count;
    queue_.emplace_back([=] {
      std::memset(scratch, 0x5a, subtree_bytes * subtree_count / 32);
      const std::size_t chunks = subtree_bytes / k_blake3_chunk_bytes;
      // By another kernel than the processor's own digests, which these are compared with.
      for (std::size_t i = 0; i < subtree_count; ++i) {
        const auto value = blake3_subtree(*blake3_kernels().back(), std::to_array(k_blake3_iv), 0,
                                          static_cast<const std::uint8_t*>(bytes) + i * subtree_bytes, chunks,
                                          first_chunk + i * chunks);
        std::copy(value.begin(), value.end(), values + 8 * i);
      }
    });
  }

 private:
  static const BlockKernels& kernels(ElementType type) { return engines().back().block(type); }

  DeviceTraffic* traffic_;
  std::vector<std::function<void()>> queue_;
};

class HostDevice final : public Device {
 public:
  const std::string& name() const override { return name_; }
  std::uint64_t free_bytes() const override {
    return static_cast<std::uint64_t>(traffic_.room_bytes - traffic_.held_bytes);
  }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<HostDeviceStream>(traffic_); }
  std::unique_ptr<DeviceStream> stream_of(void*) override { return make_stream(); }
  DeviceStreams& streams() override { return streams_; }
  DeviceMemories& memories() override { return memories_; }
  HostPins& pins() override { return pins_; }
  std::unique_ptr<DeviceMemory> allocate(std::size_t size_bytes) override {
    return std::make_unique<HostDeviceMemory>(size_bytes, traffic_);
  }
  std::unique_ptr<DeviceMemory> allocate_pinned(std::size_t size_bytes) override {
    return std::make_unique<HostDeviceMemory>(size_bytes, pinned_);
  }

  DeviceTraffic& traffic() { return traffic_; }
  DeviceTraffic& pinned() { return pinned_; }

 protected:
  bool pin(std::span<std::uint8_t> memory) override {
    if (!traffic_.can_pin) return false;
    traffic_.pinned_bytes += memory.size();
    return true;
  }
  void unpin(std::span<std::uint8_t> memory) override { traffic_.pinned_bytes -= memory.size(); }

 private:
  std::string name_ = "host";
  DeviceTraffic traffic_;
  DeviceTraffic pinned_;
  DeviceMemories memories_{*this};
  HostPins pins_{*this};
  DeviceStreams streams_{*this};  // the first to go: they are of what is above
};

inline HostDevice& host_device() {
  static HostDevice device;
  return device;
}

/// How much room the host's device has, for as long as this is there.
class RoomOfHostDevice {
 public:
  explicit RoomOfHostDevice(std::int64_t bytes) : before_(std::exchange(host_device().traffic().room_bytes, bytes)) {}
  RoomOfHostDevice(const RoomOfHostDevice&) = delete;
  ~RoomOfHostDevice() { host_device().traffic().room_bytes = before_; }

 private:
  std::int64_t before_;
};

/// An engine whose device is the host.
inline const Engine& host_device_engine() {
  static const Engine engine = [] {
    Engine made = best_engine();
    made.name = "host device";
    made.find_device = []() -> const DeviceAnswer& {
      static const DeviceAnswer answer{&host_device(), "the host itself"};
      return answer;
    };
    return made;
  }();
  return engine;
}

}  // namespace wdelta::testing
