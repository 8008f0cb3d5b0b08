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
  template <typename Words>
  __attribute__((always_inline)) void borrow(unsigned, Words&) const {}
};

/// The next blocks of chunks that lie one behind the other are moved into lanes: `to` is the first pairs of words of
/// `Width` lanes, then their second pairs, and so on to the last; then the same of the next lanes. Shuffles for this
/// would have the rounds wait, as they share the few ports of rotations; words are moved while the rounds go on.
///
/// Two shuffles then make a vector each of a pair. Of four lanes in a row the first two have their pairs in the first
/// half of a vector's, and the others in its second half, so that vshufps of both halves has lanes in their order.
template <unsigned Lanes, unsigned Width>
class Moves {
 public:
  using Pair = std::uint64_t;
  static constexpr unsigned k_pairs = k_blake3_block_bytes / sizeof(Pair);

  Moves(const std::uint8_t* first_block, Pair* to) : from_(first_block), to_(to) {}

  /// After each step the same number of pairs, until all are there.
  __attribute__((always_inline)) void behind(unsigned step) const {
    constexpr unsigned k_moves = Lanes * k_pairs;
    constexpr unsigned k_at_once = (k_moves + k_blake3_steps - 1) / k_blake3_steps;
#pragma GCC unroll 4
    for (unsigned i = k_at_once * step; i < k_at_once * (step + 1); ++i) {
      if (i < k_moves) move(i / k_pairs, i % k_pairs);
    }
  }

  // Assembly, as the rounds are, so that it stays between their steps.
  __attribute__((always_inline)) void move(unsigned lane, unsigned pair) const {
    using Bytes = std::uint8_t[sizeof(Pair)];
    const std::uint8_t* const from = from_ + lane * k_blake3_chunk_bytes + pair * sizeof(Pair);
    Pair* const to = to_ + (lane / Width * k_pairs + pair) * Width + place_of(lane % Width);
    Pair value;
    __asm__ volatile("mov %1, %0" : "=r"(value) : "m"(*reinterpret_cast<const Bytes*>(from)));
    __asm__ volatile("mov %1, %0" : "=m"(*to) : "r"(value));
  }

 private:
  static constexpr unsigned place_of(unsigned lane) { return lane % 4 / 2 * (Width / 2) + lane / 4 * 2 + lane % 2; }

  const std::uint8_t* from_;
  Pair* to_;
};

}  // namespace
}  // namespace wdelta
