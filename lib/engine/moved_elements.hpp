// SPDX-License-Identifier: Apache-2.0
// Moves elements here and there, a few thousand at a time; for kernel files alone, each of which gets a copy of its
// own.
#pragma once

#include "engine/kernel_elements.hpp"

namespace wdelta {
namespace {

/// Some elements of a block, and what is to be added to their orders.
template <class T, std::uint32_t most>
struct MovedElements {
  std::uint32_t count = 0;
  // Rubbish may be written behind them.
  std::uint16_t position[most + 64];
  T move[most + 64];
  // The elements, once they were moved.
  T before[most];
  T after[most];

  /// No two positions are the same. position_of(i) completes position[i]. Loading, moving and storing are loops of
  /// their own: the one in the middle becomes vectors.
  template <Order order, class Position>
  void apply(char* elements, const std::uint64_t* flips, Position position_of) {
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t at = position_of(i);
      position[i] = static_cast<std::uint16_t>(at);
      before[i] = load<T>(elements, at);
    }
    if (flips != nullptr) flip(flips);
    for (std::uint32_t i = 0; i < count; ++i) {
      after[i] = ordered<T, order>(static_cast<T>(ordered<T, order>(before[i]) + move[i]));
    }
#pragma GCC unroll 4
    for (std::uint32_t i = 0; i < count; ++i) store<T>(elements, position[i], after[i]);
  }

 private:
  void flip(const std::uint64_t* flips) {
    for (std::uint32_t i = 0; i < count; ++i) {
      flip_[i] = static_cast<T>(0 - (flips[position[i] / 64U] >> (position[i] % 64U) & 1));
    }
    for (std::uint32_t i = 0; i < count; ++i) move[i] = static_cast<T>((move[i] ^ flip_[i]) - flip_[i]);
  }

  T flip_[most];  // all ones where the move is taken away
};

}  // namespace
}  // namespace wdelta
