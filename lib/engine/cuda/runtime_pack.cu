// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_pack.hpp"
#include "engine/cuda/runtime_agent.cuh"

namespace wdelta::cuda {

template cudaError_t launch_agent<PackAgent>(std::size_t, const PackAgent::Arguments&, cudaStream_t);

}  // namespace wdelta::cuda
