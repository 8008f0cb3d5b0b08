// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/device_code.hpp"

#include <cstdint>

namespace wdelta::cuda {

inline constexpr std::uint32_t k_warp_threads = 32;

struct WarpSum {
  std::uint32_t before;  ///< of the values in lower lanes
  std::uint32_t all;
};

template <class Threads>
WDELTA_DEVICE WarpSum warp_sum(const Threads& threads, std::uint32_t value) {
  const std::uint32_t lane = threads.thread() % k_warp_threads;
  std::uint32_t sum = value;
  WDELTA_UNROLL
  for (std::uint32_t n = 1; n < k_warp_threads; n *= 2) {
    const std::uint32_t below = threads.shuffle_up(sum, n);
    if (lane >= n) sum += below;
  }
  return {sum - value, threads.shuffle(sum, k_warp_threads - 1)};
}

}  // namespace wdelta::cuda
