// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_scalar.hpp"

namespace wdelta {

// Each class's rank that is waited for stands in a table; one look per element.
bool find_ranks_scalar(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                       const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions) {
  constexpr std::uint32_t k_never = ~std::uint32_t{0};
  std::uint32_t left[256];  // members of the class before the next change
  std::uint32_t next[16];
  std::uint32_t end[16];
  for (std::uint32_t& members : left) members = k_never;
  std::uint32_t from = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    next[k] = from;
    end[k] = from += class_changes[k];
    if (next[k] < end[k]) left[k] = ranks[next[k]];
  }
  const std::uint32_t changes = from;
  std::uint32_t found = 0;
  for (std::uint32_t i = 0; i < count && found < changes; ++i) {
    const std::uint8_t k = classes[i];
    if (left[k]-- != 0) continue;
    positions[next[k]++] = static_cast<std::uint16_t>(i);
    ++found;
    left[k] = next[k] < end[k] ? ranks[next[k]] - ranks[next[k] - 1] - 1U : k_never;
  }
  return found == changes;
}

namespace {

constexpr std::uint32_t k_least_state = 1U << 15;

/// Takes one symbol from a coder, and one word where it needs it. Which do is not to be foretold, so nothing branches
/// on it: the word is loaded in any case.
std::uint8_t decode_one(const std::uint32_t* slots, std::uint32_t& state, const std::uint8_t*& words) {
  const std::uint32_t slot = slots[state & 1023];
  const std::uint32_t next = ((slot >> 8) & 0x7ff) * (state >> 10) + (slot >> 20);
  std::uint16_t word;
  __builtin_memcpy(&word, words, sizeof(word));
  // In arithmetic: a compiler may turn a choice into a branch.
  const std::uint32_t needs_word = (next - k_least_state) >> 31;  // next is below 2^31
  state = next << (16 * needs_word) | (word & (0U - needs_word));
  words += 2 * needs_word;
  return static_cast<std::uint8_t>(slot);
}

}  // namespace

const std::uint8_t* decode_symbols_scalar(const std::uint32_t* slots, const std::uint8_t* change_classes,
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
        gaps[begin + lane] = decode_one(slots + 2048U * change_classes[begin + lane], state[lane], words);
      }
#pragma GCC unroll 8
      for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
        steps[begin + lane] = decode_one(slots + 2048U * change_classes[begin + lane] + 1024, state[lane], words);
      }
    }
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) states[lane] = state[lane];
  }
  // The last rounds, where there may be less than a word.
  const auto decode = [&](std::uint32_t table, std::uint32_t& state) {
    const std::uint32_t slot = slots[table + (state & 1023)];
    state = ((slot >> 8) & 0x7ff) * (state >> 10) + (slot >> 20);
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
    return static_cast<std::uint8_t>(slot);
  };
  for (; begin < changes && words != nullptr; begin += lanes) {
    const std::uint32_t end = changes - begin < lanes ? changes : begin + lanes;
    for (std::uint32_t i = begin; i < end; ++i) gaps[i] = decode(2048U * change_classes[i], states[i - begin]);
    for (std::uint32_t i = begin; i < end; ++i) steps[i] = decode(2048U * change_classes[i] + 1024, states[i - begin]);
  }
  return words;
}

std::uint32_t join_raw_bits_scalar(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                                   std::uint32_t class_count, const std::uint32_t* class_changes,
                                   const std::uint8_t* raw, std::uint16_t* ranks, std::uint32_t* distances,
                                   std::uint64_t* raw_bits) {
  const auto bits_of = [](std::uint32_t bucket) { return bucket < 4 ? 0 : bucket / 2 - 1; };
  const auto begin = [](std::uint32_t bucket, std::uint32_t bits) {
    return bucket < 4 ? bucket : (2 + (bucket & 1)) << bits;
  };
  std::uint64_t at = 0;
  std::uint32_t i = 0;
  std::uint64_t last = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    std::uint64_t next = 0;
    for (const std::uint32_t end = i + class_changes[k]; i < end; ++i) {
      const std::uint32_t gap_bits = bits_of(gap_symbols[i]);
      const std::uint32_t distance_bucket = step_symbols[i] / 2U;
      const std::uint32_t distance_bits = bits_of(distance_bucket);
      std::uint64_t bits;
      __builtin_memcpy(&bits, raw + at / 8, sizeof(bits));
      bits >>= at % 8;
      distances[i] = begin(distance_bucket, distance_bits) +
                     (static_cast<std::uint32_t>(bits >> gap_bits) & ((1U << distance_bits) - 1));
      at += gap_bits + distance_bits;
      next += begin(gap_symbols[i], gap_bits) + (static_cast<std::uint32_t>(bits) & ((1U << gap_bits) - 1));
      ranks[i] = static_cast<std::uint16_t>(next++);
    }
    last = next > last ? next : last;
  }
  *raw_bits = at;
  return last > 65537 ? 65537 : static_cast<std::uint32_t>(last);
}

}  // namespace wdelta
