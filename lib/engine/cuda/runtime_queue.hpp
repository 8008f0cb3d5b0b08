// SPDX-License-Identifier: Apache-2.0
// A CUDA stream as AgentStream wants it, and memory of a device.
#pragma once

#include "engine/cuda/runtime_error.hpp"
#include "engine/cuda/runtime_launch.hpp"
#include "engine/device.hpp"

#include <cuda_runtime_api.h>
#include <new>
#include <string>

namespace wdelta::cuda {

/// Which device is meant: its number, and its name for errors. Lives as long as the program.
struct RuntimePlace {
  int ordinal;
  std::string name;
};

/// Makes a device the thread's own while it lives: callers may have another.
class CurrentDevice {
 public:
  explicit CurrentDevice(const RuntimePlace& place);
  /// For those who give back, whom no failure may stop: of a device that was lost there is nothing left to give back.
  CurrentDevice(const RuntimePlace& place, std::nothrow_t) noexcept;
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int before_ = -1;
};

class RuntimeQueue {
 public:
  /// A new stream.
  explicit RuntimeQueue(const RuntimePlace& place);
  /// The caller's, which stays his.
  RuntimeQueue(const RuntimePlace& place, cudaStream_t stream);
  ~RuntimeQueue();
  RuntimeQueue(const RuntimeQueue&) = delete;
  RuntimeQueue& operator=(const RuntimeQueue&) = delete;

  void upload(void* to, const void* from, std::size_t size_bytes);
  void download(void* to, const void* from, std::size_t size_bytes);
  void copy(void* to, const void* from, std::size_t size_bytes);
  void fill_zeros(void* to, std::size_t size_bytes);
  void wait();

  template <class Agent>
  void launch(std::size_t thread_blocks, const typename Agent::Arguments& arguments) {
    const CurrentDevice current(*place_);
    check_cuda(launch_agent<Agent>(thread_blocks, arguments, stream_), place_->name, "launch of a kernel");
  }

 private:
  const RuntimePlace* place_;
  cudaStream_t stream_ = nullptr;
  bool is_own_ = false;
};

/// Of the device, or of the host.
enum class RuntimeMemoryKind { device, pinned };

class RuntimeMemory final : public DeviceMemory {
 public:
  RuntimeMemory(const RuntimePlace& place, RuntimeMemoryKind kind, std::size_t size_bytes);
  ~RuntimeMemory() override;
  RuntimeMemory(const RuntimeMemory&) = delete;
  RuntimeMemory& operator=(const RuntimeMemory&) = delete;

  void* begin() const override { return begin_; }
  std::size_t size_bytes() const override { return size_bytes_; }

 private:
  RuntimeMemoryKind kind_;
  std::size_t size_bytes_;
  void* begin_ = nullptr;
};

}  // namespace wdelta::cuda
