// SPDX-License-Identifier: Apache-2.0
// How the words that some of eight coders give come behind one another; for kernel files alone, each of which gets a
// copy of its own.
#pragma once

#include <cstdint>

namespace wdelta {
namespace {

/// Shuffles that bring the words (of eight, 2 bytes each) whose bit is set behind one another, to the end.
struct WordShuffles {
  alignas(16) std::uint8_t of[256][16];
};
constexpr WordShuffles k_word_shuffles = [] {
  WordShuffles shuffles{};
  for (std::uint32_t mask = 0; mask < 256; ++mask) {
    std::uint32_t to = 16;
    for (std::uint32_t word = 8; word-- > 0;) {
      if ((mask >> word & 1) == 0) continue;
      shuffles.of[mask][--to] = static_cast<std::uint8_t>(2 * word + 1);
      shuffles.of[mask][--to] = static_cast<std::uint8_t>(2 * word);
    }
  }
  return shuffles;
}();

}  // namespace
}  // namespace wdelta
