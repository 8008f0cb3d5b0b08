// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/thread_words.hpp"
#include "engine/device.hpp"

namespace wdelta::cuda {

/// DeviceStream::pack(): one thread block for each block of each array. Stores whole aligned words, wherever they come
/// from.
struct PackAgent {
  static constexpr std::uint32_t k_threads = 128;
  static constexpr std::uint32_t k_residents = 8;

  struct Arguments {
    DevicePacking arrays[k_most_packings];
    std::uint32_t array_count;
    const std::uint32_t* counts;
    const std::uint32_t* starts;
  };
  struct Shared {};

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared&, const Arguments& arguments) {
    const std::size_t block = threads.block() / arguments.array_count;
    const std::size_t which = threads.block() % arguments.array_count;
    // By constants: what is chosen by a number would have to lie in memory.
    DevicePacking array = arguments.arrays[0];
    WDELTA_UNROLL
    for (std::size_t i = 1; i < k_most_packings; ++i) {
      if (i == which) array = arguments.arrays[i];
    }
    const std::uint32_t width = array.width_bytes;
    const auto* const from = static_cast<const unsigned char*>(array.from) + block * k_device_block_changes * width;
    auto* const to = static_cast<unsigned char*>(array.to) + std::size_t{arguments.starts[block]} * width;
    const std::uint32_t bytes = arguments.counts[block] * width;

    const auto skew = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(to) % k_word_bytes);
    const std::uint32_t to_word = (k_word_bytes - skew) % k_word_bytes;
    const std::uint32_t head = to_word < bytes ? to_word : bytes;
    const std::uint32_t words = (bytes - head) / k_word_bytes;
    const std::uint32_t tail = head + words * k_word_bytes;
    const std::uint32_t thread = threads.thread();
    if (thread < head) to[thread] = from[thread];
    if (tail + thread < bytes) to[tail + thread] = from[tail + thread];
    const Words source(from + head, bytes - head);
    for (std::uint32_t i = thread; i < words; i += k_threads) {
      store_word(to + head + std::size_t{i} * k_word_bytes, source.at(i));
    }
  }
};

}  // namespace wdelta::cuda
