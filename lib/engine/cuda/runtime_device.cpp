// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/device_stream.hpp"
#include "engine/cuda/runtime_error.hpp"
#include "engine/cuda/runtime_queue.hpp"
#include "engine/device.hpp"
#include "engine/device_memories.hpp"
#include "engine/device_streams.hpp"
#include "engine/host_pins.hpp"

#include <vector>

namespace wdelta {
namespace cuda {
namespace {

// What the oldest of the architectures in CMakeLists.txt can do.
constexpr int k_least_capability = 75;

class RuntimeDevice final : public Device {
 public:
  explicit RuntimeDevice(RuntimePlace place) : place_(std::move(place)) {}

  const std::string& name() const override { return place_.name; }
  std::uint64_t free_bytes() const override {
    const CurrentDevice current(place_);
    std::size_t free = 0;
    std::size_t all = 0;
    check_cuda(cudaMemGetInfo(&free, &all), place_.name, "how much memory is free");
    return free;
  }
  std::unique_ptr<DeviceStream> make_stream() override { return std::make_unique<AgentStream<RuntimeQueue>>(place_); }
  std::unique_ptr<DeviceStream> stream_of(void* native) override {
    return std::make_unique<AgentStream<RuntimeQueue>>(place_, static_cast<cudaStream_t>(native));
  }
  DeviceStreams& streams() override { return streams_; }
  DeviceMemories& memories() override { return memories_; }
  HostPins& pins() override { return pins_; }
  std::unique_ptr<DeviceMemory> allocate(std::size_t size_bytes) override {
    return std::make_unique<RuntimeMemory>(place_, RuntimeMemoryKind::device, size_bytes);
  }
  std::unique_ptr<DeviceMemory> allocate_pinned(std::size_t size_bytes) override {
    return std::make_unique<RuntimeMemory>(place_, RuntimeMemoryKind::pinned, size_bytes);
  }

 protected:
  bool pin(std::span<std::uint8_t> memory) override {
    const CurrentDevice current(place_);
    if (cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterPortable) == cudaSuccess) return true;
    static_cast<void>(cudaGetLastError());  // else the next call of whoever uses the runtime is told of it
    return false;
  }
  // After the device was lost, or when the program ends, the driver does it.
  void unpin(std::span<std::uint8_t> memory) override {
    const CurrentDevice current(place_, std::nothrow);
    static_cast<void>(cudaHostUnregister(memory.data()));
  }

 private:
  const RuntimePlace place_;
  DeviceMemories memories_{*this};
  DeviceStreams streams_{*this};
  HostPins pins_{*this};
};

DeviceAnswer answer_of(int ordinal) {
  cudaDeviceProp properties = {};
  if (const cudaError_t status = cudaGetDeviceProperties(&properties, ordinal); status != cudaSuccess) {
    return {nullptr, reason_without_device(status)};
  }
  if (properties.major * 10 + properties.minor < k_least_capability) {
    return {nullptr, std::string(properties.name) + ": its compute capability is " + std::to_string(properties.major) +
                         "." + std::to_string(properties.minor) + ", needed is 7.5"};
  }
  int driver = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  // Never destroyed: the runtime may be gone by then.
  auto* const device = new RuntimeDevice({ordinal, properties.name});
  return {device, device->name() + ", driver " + cuda_version_text(driver)};
}

/// Of every device, or one answer why there is none.
const std::vector<DeviceAnswer>& answers() {
  static const std::vector<DeviceAnswer>& all = *new std::vector<DeviceAnswer>([] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    std::vector<DeviceAnswer> found;
    if (status != cudaSuccess || count == 0) {
      found.push_back({nullptr, reason_without_device(status == cudaSuccess ? cudaErrorNoDevice : status)});
    } else {
      for (int ordinal = 0; ordinal < count; ++ordinal) found.push_back(answer_of(ordinal));
    }
    return found;
  }());
  return all;
}

}  // namespace
}  // namespace cuda

const DeviceAnswer& cuda_device() {
  const std::vector<DeviceAnswer>& all = cuda::answers();
  for (const DeviceAnswer& answer : all) {
    if (answer.device != nullptr) return answer;
  }
  return all.front();
}

DeviceAnswer cuda_device_holding(const void* memory) {
  if (cuda_device().device == nullptr) return cuda_device();
  cudaPointerAttributes attributes = {};
  const cudaError_t status = cudaPointerGetAttributes(&attributes, memory);
  if (status == cudaErrorInvalidValue) {
    static_cast<void>(cudaGetLastError());
    return {nullptr, "no memory of a device"};
  }
  // What the caller's own work has done wrong shows here, too.
  check_cuda(status, "CUDA", "whose memory it is");
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
    return {nullptr, "no memory of a device"};
  }
  return cuda::answers().at(static_cast<std::size_t>(attributes.device));
}

}  // namespace wdelta
