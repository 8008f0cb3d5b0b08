// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_scalar.hpp"

namespace wdelta {

namespace {

constexpr std::uint32_t k_least_state = 1U << 15;

/// Takes one symbol from a coder, and one word where it needs it. Which do is not to be foretold, so nothing branches
/// on it: the word is loaded in any case.
std::uint8_t decode_one(const DecodeTable& table, std::uint32_t& state, const std::uint8_t*& words) {
  const std::uint8_t symbol = table.symbols[state & 1023];
  const std::uint32_t next = table.of[symbol].frequency * (state >> 10) + (state & 1023) - table.of[symbol].begin;
  std::uint16_t word;
  __builtin_memcpy(&word, words, sizeof(word));
  // In arithmetic: a compiler may turn a choice into a branch.
  const std::uint32_t needs_word = (next - k_least_state) >> 31;  // next is below 2^31
  state = next << (16 * needs_word) | (word & (0U - needs_word));
  words += 2 * needs_word;
  return symbol;
}

}  // namespace

const std::uint8_t* decode_symbols_scalar(const DecodeTable* tables, const std::uint8_t* change_classes,
                                          std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                          const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                          std::uint8_t* steps) {
  constexpr std::uint32_t k_lanes = 8;
  std::uint32_t begin = 0;
  if (lanes == k_lanes) {
    std::uint32_t state[k_lanes];
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) state[lane] = states[lane];
    // A round takes at most 16 words.
    for (; begin + k_lanes <= changes && words_end - words >= 32; begin += k_lanes) {
#pragma GCC unroll 8
      for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
        gaps[begin + lane] = decode_one(tables[2U * change_classes[begin + lane]], state[lane], words);
      }
#pragma GCC unroll 8
      for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
        steps[begin + lane] = decode_one(tables[2U * change_classes[begin + lane] + 1], state[lane], words);
      }
    }
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) states[lane] = state[lane];
  }
  // The last rounds, where there may be less than a word.
  const auto decode = [&](const DecodeTable& table, std::uint32_t& state) {
    const std::uint8_t symbol = table.symbols[state & 1023];
    state = table.of[symbol].frequency * (state >> 10) + (state & 1023) - table.of[symbol].begin;
    if (state < k_least_state) {
      if (words_end - words < 2) {
        words = nullptr;
        words_end = nullptr;
        state = k_least_state;
      } else {
        state = state << 16 | words[0] | static_cast<std::uint32_t>(words[1]) << 8;
        words += 2;
      }
    }
    return symbol;
  };
  for (; begin < changes && words != nullptr; begin += lanes) {
    const std::uint32_t end = changes - begin < lanes ? changes : begin + lanes;
    for (std::uint32_t i = begin; i < end; ++i) gaps[i] = decode(tables[2U * change_classes[i]], states[i - begin]);
    for (std::uint32_t i = begin; i < end; ++i)
      steps[i] = decode(tables[2U * change_classes[i] + 1], states[i - begin]);
  }
  return words;
}

}  // namespace wdelta
