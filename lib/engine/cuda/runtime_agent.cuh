// SPDX-License-Identifier: Apache-2.0
// An agent as a kernel.
#pragma once

#include "engine/cuda/device_code.hpp"
#include "engine/cuda/runtime_launch.hpp"

#include <cstdint>

namespace wdelta::cuda {

/// What agents are given on a device: device_code.hpp.
struct RuntimeThreads {
  static constexpr unsigned k_all_lanes = 0xffffffff;

  __device__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ std::size_t block() const { return blockIdx.x; }
  __device__ void meet() const { __syncthreads(); }
  __device__ bool any(std::uint32_t value) const { return __any_sync(k_all_lanes, value != 0) != 0; }
  __device__ std::uint32_t shuffle(std::uint32_t value, std::uint32_t lane) const {
    return __shfl_sync(k_all_lanes, value, static_cast<int>(lane));
  }
  __device__ std::uint32_t shuffle_up(std::uint32_t value, std::uint32_t lanes) const {
    return __shfl_up_sync(k_all_lanes, value, lanes);
  }
};

template <class Agent>
__global__ void __launch_bounds__(Agent::k_threads, Agent::k_residents)
    run_agent(const typename Agent::Arguments arguments) {
  __shared__ typename Agent::Shared shared;
  Agent::run(RuntimeThreads{}, shared, arguments);
}

template <class Agent>
cudaError_t launch_agent(std::size_t thread_blocks, const typename Agent::Arguments& arguments, cudaStream_t stream) {
  void* values[] = {const_cast<typename Agent::Arguments*>(&arguments)};
  return cudaLaunchKernel(reinterpret_cast<const void*>(run_agent<Agent>), dim3(static_cast<unsigned>(thread_blocks)),
                          dim3(Agent::k_threads), values, 0, stream);
}

}  // namespace wdelta::cuda
