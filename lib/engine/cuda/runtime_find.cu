// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_find.hpp"
#include "engine/cuda/runtime_agent.cuh"

namespace wdelta::cuda {

template cudaError_t launch_agent<FindAgent<std::uint8_t, ElementKind::integer>>(
    std::size_t, const FindAgent<std::uint8_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint8_t, ElementKind::floating>>(
    std::size_t, const FindAgent<std::uint8_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint16_t, ElementKind::integer>>(
    std::size_t, const FindAgent<std::uint16_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint16_t, ElementKind::floating>>(
    std::size_t, const FindAgent<std::uint16_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint32_t, ElementKind::integer>>(
    std::size_t, const FindAgent<std::uint32_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint32_t, ElementKind::floating>>(
    std::size_t, const FindAgent<std::uint32_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint64_t, ElementKind::integer>>(
    std::size_t, const FindAgent<std::uint64_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<FindAgent<std::uint64_t, ElementKind::floating>>(
    std::size_t, const FindAgent<std::uint64_t, ElementKind::floating>::Arguments&, cudaStream_t);

}  // namespace wdelta::cuda
