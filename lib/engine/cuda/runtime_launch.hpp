// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cuda_runtime_api.h>

namespace wdelta::cuda {

/// Queues a launch of an agent; instantiated for each in runtime_*.cu.
template <class Agent>
cudaError_t launch_agent(std::size_t thread_blocks, const typename Agent::Arguments& arguments, cudaStream_t stream);

}  // namespace wdelta::cuda
