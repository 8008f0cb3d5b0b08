// SPDX-License-Identifier: Apache-2.0
// Chunks and parents of BLAKE3's tree: a thread block takes 128 or 256 neighbours some levels up.
#pragma once

#include "engine/cuda/thread_blake3.hpp"

namespace wdelta::cuda {

inline constexpr std::uint32_t k_tree_threads = 128;

/// One chaining value of each thread, word by word, so that neighbours lie in different banks.
struct TreeValues {
  std::uint32_t word[8][k_tree_threads];
};

WDELTA_DEVICE void put_value(TreeValues& values, std::uint32_t i, const ChainValue& value) {
  WDELTA_UNROLL
  for (int k = 0; k < 8; ++k) values.word[k][i] = value.word[k];
}

WDELTA_DEVICE ChainValue value_at(const TreeValues& values, std::uint32_t i) {
  ChainValue value;
  WDELTA_UNROLL
  for (int k = 0; k < 8; ++k) value.word[k] = values.word[k][i];
  return value;
}

/// Takes the thread's value `levels` levels up with its neighbours' and stores what comes out, 128 >> levels values of
/// the thread block, as far as there are `left`.
template <class Threads>
WDELTA_DEVICE void reduce_values(const Threads& threads, TreeValues& values, ChainValue value, std::uint32_t levels,
                                 std::uint32_t* to, std::uint64_t left) {
  const std::uint32_t thread = threads.thread();
  std::uint32_t count = k_tree_threads;
  WDELTA_ROLLED
  for (std::uint32_t level = 0; level < levels; ++level) {
    if (thread < count) put_value(values, thread, value);
    threads.meet();
    count /= 2;
    if (thread < count) value = blake3_parent(value_at(values, 2 * thread), value_at(values, 2 * thread + 1));
    threads.meet();
  }
  if (thread >= count || thread >= left) return;
  Word halves[2];
  WDELTA_UNROLL
  for (int i = 0; i < 4; ++i) {
    halves[0].part[i] = value.word[i];
    halves[1].part[i] = value.word[4 + i];
  }
  store_word(to + std::size_t{thread} * 8, halves[0]);
  store_word(to + std::size_t{thread} * 8 + 4, halves[1]);
}

struct ChunkAgent {
  static constexpr std::uint32_t k_threads = k_tree_threads;
  static constexpr std::uint32_t k_residents = 6;
  static constexpr std::uint32_t k_most_levels = 7;

  struct Arguments {
    const void* bytes;
    std::uint64_t first_chunk;
    std::uint64_t chunk_count;  // a multiple of 1 << levels
    std::uint32_t levels;
    std::uint32_t* values;
  };
  struct Shared {
    TreeValues values;
  };

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared& shared, const Arguments& arguments) {
    const std::uint64_t first = std::uint64_t{threads.block()} * k_threads;
    const std::uint64_t chunk = first + threads.thread();
    ChainValue value = {};
    if (chunk < arguments.chunk_count) {
      value = blake3_chunk(static_cast<const unsigned char*>(arguments.bytes) + chunk * k_blake3_chunk_bytes,
                           arguments.first_chunk + chunk);
    }
    reduce_values(threads, shared.values, value, arguments.levels, arguments.values + (first >> arguments.levels) * 8,
                  (arguments.chunk_count - first) >> arguments.levels);
  }
};

struct ParentAgent {
  static constexpr std::uint32_t k_threads = k_tree_threads;
  static constexpr std::uint32_t k_residents = 6;
  static constexpr std::uint32_t k_most_levels = 8;

  struct Arguments {
    const std::uint32_t* children;
    std::uint64_t child_count;  // a multiple of 1 << levels
    std::uint32_t levels;       // from 1 on
    std::uint32_t* values;
  };
  struct Shared {
    TreeValues values;
  };

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared& shared, const Arguments& arguments) {
    const std::uint64_t first = std::uint64_t{threads.block()} * k_threads;  // of the parents
    const std::uint64_t parent = first + threads.thread();
    const std::uint64_t parent_count = arguments.child_count / 2;
    ChainValue value = {};
    if (parent < parent_count) {
      std::uint32_t m[16];
      WDELTA_UNROLL
      for (int i = 0; i < 4; ++i) {
        const Word word = load_word(arguments.children + parent * 16 + 4 * i);
        WDELTA_UNROLL
        for (int j = 0; j < 4; ++j) m[4 * i + j] = word.part[j];
      }
      value = blake3_advance(blake3_start(), m, 0, k_blake3_parent);
    }
    const std::uint32_t levels = arguments.levels - 1;
    reduce_values(threads, shared.values, value, levels, arguments.values + (first >> levels) * 8,
                  (parent_count - first) >> levels);
  }
};

}  // namespace wdelta::cuda
