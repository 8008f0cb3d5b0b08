// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/block_census.hpp"
#include "engine/device.hpp"

namespace wdelta::cuda {

/// DeviceStream::rank_changes(): one thread block for each block. Each thread goes through a run once, and gives its
/// changes their classes and ranks within the run; what lies in the runs before is added when all have been counted.
template <class T, ElementKind kind>
struct RankAgent {
  static constexpr std::uint32_t k_threads = k_runs;
  static constexpr std::uint32_t k_residents = 4;

  struct Arguments {
    const DeviceBlock* blocks;
    Bounds bounds;
    const std::uint32_t* counts;
    const std::uint16_t* positions;
    std::uint16_t* ranks;
    std::uint8_t* classes;
    std::uint32_t* members;  // of 16 classes, block by block
  };

  struct Shared {
    Census census;
    std::uint32_t first_of_run[k_runs + 1];  // which change is a run's first
  };

  static WDELTA_DEVICE std::uint32_t run_of(std::uint16_t position) { return position / k_run_elements; }

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared& shared, const Arguments& arguments) {
    const DeviceBlock block = arguments.blocks[threads.block()];
    const std::uint32_t changes = arguments.counts[threads.block()];
    if (changes == 0) return;
    const std::size_t row = threads.block() * k_device_block_changes;
    const std::uint16_t* const positions = arguments.positions + row;
    std::uint16_t* const ranks = arguments.ranks + row;
    std::uint8_t* const classes = arguments.classes + row;
    const std::uint32_t thread = threads.thread();

    clear_census(thread, shared.census, arguments.bounds.first, arguments.bounds.count);
    WDELTA_ROLLED
    for (std::uint32_t i = thread; i < changes; i += k_threads) {
      const std::uint32_t last = run_of(positions[i]);
      for (std::uint32_t first = i == 0 ? 0 : run_of(positions[i - 1]) + 1; first <= last; ++first) {
        shared.first_of_run[first] = i;
      }
      if (i + 1 == changes) {
        for (std::uint32_t behind = last + 1; behind <= k_runs; ++behind) shared.first_of_run[behind] = changes;
      }
    }
    threads.meet();

    std::uint32_t change = shared.first_of_run[thread];
    const std::uint32_t end = shared.first_of_run[thread + 1];
    constexpr std::uint32_t never = k_block_elements;
    std::uint32_t waiting = change < end ? positions[change] : never;
    // On its way while the one before is waited for.
    std::uint32_t after = change + 1 < end ? positions[change + 1] : never;
    Census& census = shared.census;
    const Words words(block.base, static_cast<std::uint32_t>(block.count * sizeof(T)));
    each_of_run<T>(words, block.base, block.count, thread, [&](std::uint32_t at, T bits) {
      const std::uint32_t k = census.class_of[context_of<T, kind>(bits)];
      const std::uint32_t rank = census.members[k][thread];
      census.members[k][thread] = rank + 1;
      if (at != waiting) return;
      ranks[change] = static_cast<std::uint16_t>(rank);
      classes[change] = static_cast<std::uint8_t>(k);
      ++change;
      waiting = after;
      after = change + 1 < end ? positions[change + 1] : never;
    });
    threads.meet();
    sum_census(threads, census);
    if (thread < k_classes) arguments.members[threads.block() * k_classes + thread] = census.all[thread];
    WDELTA_ROLLED
    for (std::uint32_t i = thread; i < changes; i += k_threads) {
      ranks[i] = static_cast<std::uint16_t>(ranks[i] + census.members[classes[i]][run_of(positions[i])]);
    }
  }
};

}  // namespace wdelta::cuda
