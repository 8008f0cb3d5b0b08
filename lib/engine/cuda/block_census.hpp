// SPDX-License-Identifier: Apache-2.0
// Members of classes, counted by runs: 256 consecutive elements, of which each thread has one to itself.
#pragma once

#include "engine/cuda/thread_elements.hpp"
#include "engine/cuda/thread_words.hpp"
#include "engine/cuda/warp_sum.hpp"

namespace wdelta::cuda {

inline constexpr std::uint32_t k_runs = 256;
inline constexpr std::uint32_t k_run_elements = k_block_elements / k_runs;
inline constexpr std::uint32_t k_classes = 16;

/// Bounds of classes, as kernels.hpp has them.
struct Bounds {
  std::uint8_t first[k_classes];  ///< contexts that classes begin with, but the first
  std::uint32_t count;            ///< at most 15
};

struct Census {
  std::uint8_t class_of[256];                ///< by context
  std::uint32_t members[k_classes][k_runs];  ///< of a class, in a run
  std::uint32_t all[k_classes];
};

/// Puts zeros and classes into it: the thread's own run and context. `bounds` are the contexts that classes begin with,
/// but the first, at most 15.
WDELTA_DEVICE void clear_census(std::uint32_t thread, Census& census, const std::uint8_t* bounds,
                                std::uint32_t bound_count) {
  std::uint32_t class_of = 0;
  WDELTA_UNROLL
  for (std::uint32_t i = 0; i + 1 < k_classes; ++i) {
    class_of += i < bound_count && bounds[i] <= thread ? 1U : 0U;
  }
  census.class_of[thread] = static_cast<std::uint8_t>(class_of);
  WDELTA_UNROLL
  for (std::uint32_t k = 0; k < k_classes; ++k) census.members[k][thread] = 0;
}

/// Calls visit(at, element) for each element of a run of a block of `count`. Two words are one sector of memory: each
/// is fetched once, although a warp's threads are at places far apart.
template <class T, class Visit>
WDELTA_DEVICE void each_of_run(const Words& words, const void* elements, std::uint32_t count, std::uint32_t run,
                               Visit visit) {
  constexpr std::uint32_t per_word = k_word_bytes / sizeof(T);
  constexpr std::uint32_t together = 2;
  std::uint32_t at = run * k_run_elements;
  const std::uint32_t end = at + k_run_elements < count ? at + k_run_elements : count;
  WDELTA_ROLLED
  for (; at + together * per_word <= end; at += together * per_word) {
    Word both[together];
    WDELTA_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) both[i] = words.begin(at / per_word + i);
    WDELTA_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) both[i] = words.finish(at / per_word + i, both[i]);
    WDELTA_UNROLL
    for (std::uint32_t i = 0; i < together; ++i) {
      WDELTA_UNROLL
      for (std::uint32_t j = 0; j < per_word; ++j) visit(at + i * per_word + j, element_of<T>(both[i], j));
    }
  }
  WDELTA_ROLLED
  for (; at < end; ++at) visit(at, load_element<T>(elements, at));
}

/// Makes of the members in each run those in the runs before it. All threads have met, and meet again.
template <class Threads>
WDELTA_DEVICE void sum_census(const Threads& threads, Census& census) {
  constexpr std::uint32_t per_lane = k_runs / k_warp_threads;
  constexpr std::uint32_t warps = k_runs / k_warp_threads;
  const std::uint32_t first = threads.thread() % k_warp_threads * per_lane;
  WDELTA_ROLLED
  for (std::uint32_t k = threads.thread() / k_warp_threads; k < k_classes; k += warps) {
    std::uint32_t sum = 0;
    std::uint32_t of_run[per_lane];
    WDELTA_UNROLL
    for (std::uint32_t i = 0; i < per_lane; ++i) {
      of_run[i] = sum;
      sum += census.members[k][first + i];
    }
    const WarpSum of_lanes = warp_sum(threads, sum);
    WDELTA_UNROLL
    for (std::uint32_t i = 0; i < per_lane; ++i) census.members[k][first + i] = of_lanes.before + of_run[i];
    if (first == 0) census.all[k] = of_lanes.all;
  }
  threads.meet();
}

}  // namespace wdelta::cuda
