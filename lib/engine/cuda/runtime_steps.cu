// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_steps.hpp"
#include "engine/cuda/runtime_agent.cuh"

namespace wdelta::cuda {

template cudaError_t launch_agent<StepsAgent<std::uint8_t, ElementKind::integer>>(
    std::size_t, const StepsAgent<std::uint8_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint8_t, ElementKind::floating>>(
    std::size_t, const StepsAgent<std::uint8_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint16_t, ElementKind::integer>>(
    std::size_t, const StepsAgent<std::uint16_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint16_t, ElementKind::floating>>(
    std::size_t, const StepsAgent<std::uint16_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint32_t, ElementKind::integer>>(
    std::size_t, const StepsAgent<std::uint32_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint32_t, ElementKind::floating>>(
    std::size_t, const StepsAgent<std::uint32_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint64_t, ElementKind::integer>>(
    std::size_t, const StepsAgent<std::uint64_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<StepsAgent<std::uint64_t, ElementKind::floating>>(
    std::size_t, const StepsAgent<std::uint64_t, ElementKind::floating>::Arguments&, cudaStream_t);

}  // namespace wdelta::cuda
