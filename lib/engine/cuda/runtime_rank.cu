// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/block_rank.hpp"
#include "engine/cuda/runtime_agent.cuh"

namespace wdelta::cuda {

template cudaError_t launch_agent<RankAgent<std::uint8_t, ElementKind::integer>>(
    std::size_t, const RankAgent<std::uint8_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<RankAgent<std::uint8_t, ElementKind::floating>>(
    std::size_t, const RankAgent<std::uint8_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<RankAgent<std::uint16_t, ElementKind::integer>>(
    std::size_t, const RankAgent<std::uint16_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<RankAgent<std::uint16_t, ElementKind::floating>>(
    std::size_t, const RankAgent<std::uint16_t, ElementKind::floating>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<RankAgent<std::uint32_t, ElementKind::integer>>(
    std::size_t, const RankAgent<std::uint32_t, ElementKind::integer>::Arguments&, cudaStream_t);
template cudaError_t launch_agent<RankAgent<std::uint32_t, ElementKind::floating>>(
    std::size_t, const RankAgent<std::uint32_t, ElementKind::floating>::Arguments&, cudaStream_t);

}  // namespace wdelta::cuda
