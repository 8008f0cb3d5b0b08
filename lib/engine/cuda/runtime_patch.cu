// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_patch.hpp"
#include "engine/cuda/runtime_agent.cuh"

namespace wdelta::cuda {

template cudaError_t launch_agent<PatchAgent<std::uint8_t, ElementKind::integer>>(
    std::size_t, const PatchAgent<std::uint8_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<PatchAgent<std::uint8_t, ElementKind::floating>>(
    std::size_t, const PatchAgent<std::uint8_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<PatchAgent<std::uint16_t, ElementKind::integer>>(
    std::size_t, const PatchAgent<std::uint16_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<PatchAgent<std::uint16_t, ElementKind::floating>>(
    std::size_t, const PatchAgent<std::uint16_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<PatchAgent<std::uint32_t, ElementKind::integer>>(
    std::size_t, const PatchAgent<std::uint32_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<PatchAgent<std::uint32_t, ElementKind::floating>>(
    std::size_t, const PatchAgent<std::uint32_t, ElementKind::floating>::Arguments&, cudaStream_t);

}  // namespace wdelta::cuda
