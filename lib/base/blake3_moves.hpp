// SPDX-License-Identifier: Apache-2.0
// How the words of blocks come into lanes without shuffles; for kernel files alone, each of which gets a copy of its
// own.
#pragma once

#include "base/blake3_kernel.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

/// Of a block's seven rounds, each of which does the same to a whole row of states.
constexpr unsigned k_blake3_steps = 196;

/// What is done between them: nothing.
struct Idle {
  __attribute__((always_inline)) void behind(unsigned) const {}
};

/// The next blocks of chunks that lie one behind the other are moved into lanes: `to` is the first words of `Width`
/// lanes, then their second words, and so on to the 16th; then the same of the next lanes. Shuffles for this would have
/// the rounds wait, as they share the few ports of rotations; single words are moved while the rounds go on.
template <unsigned Lanes, unsigned Width>
class Moves {
 public:
  Moves(const std::uint8_t* first_block, void* to) : from_(first_block), to_(static_cast<std::uint32_t*>(to)) {}

  /// After each step the same number of words, until all are there.
  __attribute__((always_inline)) void behind(unsigned step) const {
    constexpr unsigned k_moves = Lanes * k_words;
    constexpr unsigned k_at_once = (k_moves + k_blake3_steps - 1) / k_blake3_steps;
#pragma GCC unroll 4
    for (unsigned i = k_at_once * step; i < k_at_once * (step + 1); ++i) {
      if (i < k_moves) move(i / k_words, i % k_words);
    }
  }

 private:
  static constexpr unsigned k_words = k_blake3_block_bytes / sizeof(std::uint32_t);
  using Unaligned = std::uint32_t __attribute__((aligned(1), may_alias));

  // Assembly, as the rounds are, so that it stays between their steps.
  __attribute__((always_inline)) void move(unsigned lane, unsigned word) const {
    const auto* const from = reinterpret_cast<const Unaligned*>(from_ + lane * k_blake3_chunk_bytes) + word;
    std::uint32_t* const to = to_ + (lane / Width * k_words + word) * Width + lane % Width;
    std::uint32_t value;
    __asm__ volatile("movl %1, %0" : "=r"(value) : "m"(*from));
    __asm__ volatile("movl %1, %0" : "=m"(*to) : "r"(value));
  }

  const std::uint8_t* from_;
  std::uint32_t* to_;
};

}  // namespace
}  // namespace wdelta
