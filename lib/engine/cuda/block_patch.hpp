// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/block_census.hpp"
#include "engine/device.hpp"

namespace wdelta::cuda {

/// DeviceStream::patch(): one thread block for each strip, whose blocks it goes through one after the other. Each
/// thread counts the members of classes in a run of a block; from that follows which run each change lies in, and then
/// each thread goes through its run again, if it has changes, and counts down to them.
template <class T, ElementKind kind>
struct PatchAgent {
  static constexpr std::uint32_t k_threads = k_runs;
  static constexpr std::uint32_t k_residents = 4;

  struct Arguments {
    const DevicePatch* patches;
    const std::uint32_t* ranks;
    const void* moves;
    const std::uint64_t* flips;
    std::uint32_t* statuses;
  };

  struct Shared {
    Census census;
    std::uint32_t first_of_run[k_classes][k_runs + 1];  // of the changes of a class, the first in a run
    std::uint32_t next_of_class[k_classes];             // the first change that the blocks before have not
    std::uint32_t end_of_class[k_classes];
    std::uint32_t members_before[k_classes];  // in the blocks before
    bool is_possible;
  };

  // What a thread waits for in a class: which change comes next, and how many members before it; or that none comes in
  // this run.
  static constexpr std::uint32_t k_left_bits = 9;
  static constexpr std::uint32_t k_never = (1U << k_left_bits) - 1;
  static_assert(k_never >= 2 * k_run_elements - 1, "counted down by a whole run it is not 0");
  static WDELTA_DEVICE std::uint32_t waiting(std::uint32_t change, std::uint32_t left) {
    return change << k_left_bits | (left < k_run_elements ? left : k_never);
  }

  /// The last run that begins with no more than `rank` members of a class.
  static WDELTA_DEVICE std::uint32_t run_of(const std::uint32_t* before_run, std::uint32_t rank) {
    std::uint32_t run = 0;
    WDELTA_UNROLL
    for (std::uint32_t half = k_runs / 2; half > 0; half /= 2) {
      if (before_run[run + half] <= rank) run += half;
    }
    return run;
  }

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared& shared, const Arguments& arguments) {
    const DevicePatch& patch = arguments.patches[threads.block()];
    const std::uint32_t class_count = patch.bound_count + 1U;
    if (threads.thread() == 0) {
      std::uint32_t end = 0;
      shared.is_possible = true;
      WDELTA_ROLLED
      for (std::uint32_t k = 0; k < class_count; ++k) {
        // Their sum may even run over.
        shared.is_possible = shared.is_possible && patch.class_changes[k] <= k_most_patch_changes - end;
        shared.next_of_class[k] = end;
        shared.end_of_class[k] = end += patch.class_changes[k];
        shared.members_before[k] = 0;
      }
    }
    threads.meet();
    WDELTA_ROLLED
    for (std::uint32_t first = 0; shared.is_possible && first < patch.count; first += k_block_elements) {
      patch_block(threads, shared, arguments, patch, first);
      threads.meet();
      if (threads.thread() < class_count) {
        shared.next_of_class[threads.thread()] = shared.first_of_run[threads.thread()][k_runs];
        shared.members_before[threads.thread()] += shared.census.all[threads.thread()];
      }
    }
    threads.meet();
    if (threads.thread() == 0) {
      std::uint32_t are_left = shared.is_possible ? 0 : 1;
      WDELTA_ROLLED
      for (std::uint32_t k = 0; k < class_count; ++k) {
        if (shared.next_of_class[k] != shared.end_of_class[k]) are_left = 1;
      }
      arguments.statuses[threads.block()] = are_left;
    }
  }

 private:
  /// Of the block that begins with that element of the strip.
  template <class Threads>
  static WDELTA_DEVICE void patch_block(const Threads& threads, Shared& shared, const Arguments& arguments,
                                        const DevicePatch& patch, std::uint32_t first) {
    void* const elements = static_cast<std::uint8_t*>(patch.elements) + std::size_t{first} * sizeof(T);
    const std::uint32_t left_in_strip = patch.count - first;
    const std::uint32_t count = left_in_strip < k_block_elements ? left_in_strip : k_block_elements;
    const std::uint32_t* const ranks = arguments.ranks + patch.first_change;
    const T* const moves = static_cast<const T*>(arguments.moves) + patch.first_change;
    const std::uint64_t* const flips =
        patch.first_flip == k_no_flips ? nullptr : arguments.flips + patch.first_flip + first / 64;
    const std::uint32_t thread = threads.thread();
    const std::uint32_t class_count = patch.bound_count + 1U;
    Census& census = shared.census;

    clear_census(thread, census, patch.bounds, patch.bound_count);
    threads.meet();
    const Words words(elements, static_cast<std::uint32_t>(count * sizeof(T)));
    each_of_run<T>(words, elements, count, thread, [&](std::uint32_t, T bits) {
      ++census.members[census.class_of[context_of<T, kind>(bits)]][thread];
    });
    WDELTA_ROLLED
    for (std::uint32_t k = 0; k < class_count; ++k) {
      shared.first_of_run[k][thread] = shared.next_of_class[k];
      if (thread == 0) shared.first_of_run[k][k_runs] = shared.next_of_class[k];
    }
    threads.meet();
    sum_census(threads, census);

    WDELTA_ROLLED
    for (std::uint32_t k = 0; k < class_count; ++k) {
      const std::uint32_t begin = shared.next_of_class[k];
      const std::uint32_t end = shared.end_of_class[k];
      const std::uint32_t before = shared.members_before[k];
      WDELTA_ROLLED
      for (std::uint32_t i = begin + thread; i < end; i += k_threads) {
        const std::uint32_t rank = ranks[i] - before;
        if (rank >= census.all[k]) break;  // in the blocks behind
        const std::uint32_t last = run_of(census.members[k], rank);
        std::uint32_t run = i == begin ? 0 : run_of(census.members[k], ranks[i - 1] - before) + 1;
        for (; run <= last; ++run) shared.first_of_run[k][run] = i;
        if (i + 1 < end && ranks[i + 1] - before < census.all[k]) continue;
        for (; run <= k_runs; ++run) shared.first_of_run[k][run] = i + 1;
      }
    }
    threads.meet();

    // What was counted is needed no more: in its place stands what is waited for.
    bool has_changes = false;
    WDELTA_ROLLED
    for (std::uint32_t k = 0; k < class_count; ++k) {
      const std::uint32_t change = shared.first_of_run[k][thread];
      has_changes = has_changes || change < shared.first_of_run[k][thread + 1];
      std::uint32_t left = k_never;
      if (change < shared.end_of_class[k]) left = ranks[change] - shared.members_before[k] - census.members[k][thread];
      census.members[k][thread] = waiting(change, left);
    }
    if (!has_changes) return;
    each_of_run<T>(words, elements, count, thread, [&](std::uint32_t at, T bits) {
      const std::uint32_t k = census.class_of[context_of<T, kind>(bits)];
      const std::uint32_t waits = census.members[k][thread];
      if ((waits & k_never) != 0) {
        census.members[k][thread] = waits - 1;
        return;
      }
      const std::uint32_t change = waits >> k_left_bits;
      T move = moves[change];
      if (flips != nullptr && (flips[at / 64] >> (at % 64) & 1) != 0) move = static_cast<T>(0 - move);
      store_element<T>(elements, at, moved<T, kind>(bits, move));
      std::uint32_t left = k_never;
      if (change + 1 < shared.end_of_class[k]) left = ranks[change + 1] - ranks[change] - 1;
      census.members[k][thread] = waiting(change + 1, left);
    });
  }
};

}  // namespace wdelta::cuda
