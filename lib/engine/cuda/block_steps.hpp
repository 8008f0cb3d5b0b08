// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/thread_elements.hpp"
#include "engine/device.hpp"

namespace wdelta::cuda {

/// DeviceStream::apply_changes(): one thread block for each block.
template <class T, ElementKind kind>
struct StepsAgent {
  static constexpr std::uint32_t k_threads = 256;
  static constexpr std::uint32_t k_residents = 4;  // all threads that a multiprocessor of the smallest has
  // Changes of a thread on their way at once.
  static constexpr std::uint32_t k_together = 4;

  struct Arguments {
    const DeviceSteps* blocks;  // on the device; null for the one block given here
    DeviceSteps block;
    const std::uint16_t* positions;
    const void* steps;
  };
  struct Shared {};

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared&, const Arguments& arguments) {
    const DeviceSteps block = arguments.blocks == nullptr ? arguments.block : arguments.blocks[threads.block()];
    const std::uint16_t* const positions = arguments.positions + block.first_change;
    const T* const steps = static_cast<const T*>(arguments.steps) + block.first_change;
    WDELTA_ROLLED
    for (std::uint32_t first = threads.thread(); first < block.changes; first += k_together * k_threads) {
      T bits[k_together];
      std::uint32_t at[k_together];
      WDELTA_UNROLL
      for (std::uint32_t j = 0; j < k_together; ++j) {
        const std::uint32_t i = first + j * k_threads;
        at[j] = i < block.changes ? positions[i] : 0;
      }
      WDELTA_UNROLL
      for (std::uint32_t j = 0; j < k_together; ++j) {
        if (first + j * k_threads < block.changes) bits[j] = load_element<T>(block.elements, at[j]);
      }
      WDELTA_UNROLL
      for (std::uint32_t j = 0; j < k_together; ++j) {
        const std::uint32_t i = first + j * k_threads;
        if (i < block.changes) store_element<T>(block.elements, at[j], stepped<T, kind>(bits[j], steps[i]));
      }
    }
  }
};

}  // namespace wdelta::cuda
