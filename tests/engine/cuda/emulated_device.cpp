// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/emulated_device.hpp"

#include "base/error.hpp"
#include "engine/cuda/device_stream.hpp"

#include <cstring>
#include <limits>

namespace wdelta::testing {

class EmulatedDevice::Memory final : public DeviceMemory {
 public:
  Memory(EmulatedDevice& device, std::size_t size_bytes, EmulatedMemories::Kind kind)
      : device_(device), size_bytes_(size_bytes) {
    const std::lock_guard lock(device.mutex_);
    begin_ = device.memories_.allocate(size_bytes, kind);
  }
  ~Memory() override {
    const std::lock_guard lock(device_.mutex_);
    device_.memories_.release(begin_);
  }

  void* begin() const override { return begin_; }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  EmulatedDevice& device_;
  std::size_t size_bytes_;
  void* begin_;
};

class EmulatedDevice::Queue {
 public:
  explicit Queue(EmulatedDevice& device) : device_(device) {}

  void upload(void* to, const void* from, std::size_t size_bytes) {
    expect(to, size_bytes, true);
    expect(from, size_bytes, false);
    queue_copy(to, from, size_bytes);
  }
  void download(void* to, const void* from, std::size_t size_bytes) {
    expect(to, size_bytes, false);
    expect(from, size_bytes, true);
    queue_copy(to, from, size_bytes);
  }
  void copy(void* to, const void* from, std::size_t size_bytes) {
    expect(to, size_bytes, true);
    expect(from, size_bytes, true);
    queue_copy(to, from, size_bytes);
  }
  void fill_zeros(void* to, std::size_t size_bytes) {
    expect(to, size_bytes, true);
    work_.emplace_back([=] { std::memset(to, 0, size_bytes); });
  }

  void wait() {
    const std::lock_guard lock(device_.mutex_);
    if (device_.is_lost_) {
      work_.clear();
      throw Error(Fault::local, device_.name_, "work on the device: it was lost", "start again");
    }
    {
      const EmulatedMemories::Work open(device_.memories_);
      const std::vector<std::function<void()>> work = std::exchange(work_, {});
      for (const auto& each : work) each();
      device_.memories_.check();
    }
  }

  template <class Agent>
  void launch(std::size_t thread_blocks, const typename Agent::Arguments& arguments) {
    if (thread_blocks > std::numeric_limits<std::int32_t>::max()) {
      throw Error(Fault::internal, device_.name_, "a launch of more thread blocks than devices take");
    }
    static_assert(sizeof(typename Agent::Shared) <= std::size_t{48} << 10, "more shared memory than devices have");
    static_assert(sizeof(typename Agent::Arguments) <= 4096, "more arguments than a launch takes");
    work_.emplace_back([=, this] { run<Agent>(thread_blocks, arguments); });
  }

 private:
  void expect(const void* begin, std::size_t size_bytes, bool on_device) const {
    const std::lock_guard lock(device_.mutex_);
    const bool is = device_.memories_.holds(begin, size_bytes);
    const bool begins = device_.memories_.holds(begin, 1);
    if (on_device ? is : !begins) return;
    throw Error(Fault::internal, device_.name_,
                on_device ? "a copy that does not lie in one piece of device memory"
                          : "a copy to or from the host lies on the device");
  }

  void queue_copy(void* to, const void* from, std::size_t size_bytes) {
    work_.emplace_back([=] { std::memmove(to, from, size_bytes); });
  }

  template <class Agent>
  void run(std::size_t thread_blocks, const typename Agent::Arguments& arguments) {
    ++device_.launches_;
    // Shared memory holds whatever another left there.
    constexpr std::size_t shared_bytes = sizeof(typename Agent::Shared);
    device_.shared_.assign(shared_bytes + 256, 0xb7);
    void* begin = device_.shared_.data();
    std::size_t room = device_.shared_.size();
    auto& shared = *static_cast<typename Agent::Shared*>(std::align(128, shared_bytes, begin, room));
    for (std::size_t block = 0; block < thread_blocks; ++block) {
      std::memset(static_cast<void*>(&shared), 0xb7, shared_bytes);
      device_.thread_block_.run(Agent::k_threads, [&](std::uint32_t thread) {
        Agent::run(EmulatedThreads(device_.thread_block_, thread, block), shared, arguments);
      });
    }
  }

  EmulatedDevice& device_;
  std::vector<std::function<void()>> work_;
};

std::unique_ptr<DeviceStream> EmulatedDevice::make_stream() {
  return std::make_unique<cuda::AgentStream<Queue>>(*this);
}

std::unique_ptr<DeviceStream> EmulatedDevice::stream_of(void*) { return make_stream(); }

std::unique_ptr<DeviceMemory> EmulatedDevice::allocate(std::size_t size_bytes) {
  return std::make_unique<Memory>(*this, size_bytes, EmulatedMemories::Kind::device);
}

std::unique_ptr<DeviceMemory> EmulatedDevice::allocate_pinned(std::size_t size_bytes) {
  return std::make_unique<Memory>(*this, size_bytes, EmulatedMemories::Kind::pinned);
}

void EmulatedDevice::lose() {
  const std::lock_guard lock(mutex_);
  is_lost_ = true;
}

std::uint64_t EmulatedDevice::device_bytes() const {
  const std::lock_guard lock(mutex_);
  return memories_.device_bytes();
}

std::uint64_t EmulatedDevice::most_device_bytes() const {
  const std::lock_guard lock(mutex_);
  return memories_.most_device_bytes();
}

std::uint64_t EmulatedDevice::launches() const {
  const std::lock_guard lock(mutex_);
  return launches_;
}

}  // namespace wdelta::testing
