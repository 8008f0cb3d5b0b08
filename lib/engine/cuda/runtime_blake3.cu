// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_blake3.hpp"
#include "engine/cuda/runtime_agent.cuh"

namespace wdelta::cuda {

template cudaError_t launch_agent<ChunkAgent>(std::size_t, const ChunkAgent::Arguments&, cudaStream_t);
template cudaError_t launch_agent<ParentAgent>(std::size_t, const ParentAgent::Arguments&, cudaStream_t);

}  // namespace wdelta::cuda
