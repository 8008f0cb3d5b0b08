// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx2.hpp"

#include "engine/decoding_scalar.hpp"
#include "engine/stretch_avx2.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_lanes = 8;

/// What a bucket begins with and how many raw bits follow.
struct Buckets {
  std::uint32_t begin[64];
  std::uint8_t raw_bits[64];
};
constexpr Buckets k_buckets = [] {
  Buckets buckets{};
  for (std::uint32_t bucket = 0; bucket < 64; ++bucket) {
    const std::uint32_t bits = bucket < 4 ? 0 : bucket / 2 - 1;
    buckets.raw_bits[bucket] = static_cast<std::uint8_t>(bits);
    buckets.begin[bucket] = bucket < 4 ? bucket : (2 + (bucket & 1)) << bits;
  }
  return buckets;
}();

}  // namespace

bool find_ranks_avx2(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                     const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions) {
  Stretch stretch;
  std::uint32_t next[16];
  std::uint32_t end[16];
  std::uint32_t changes = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    next[k] = changes;
    end[k] = changes += class_changes[k];
  }
  std::uint32_t found = 0;
  for (std::uint32_t first = 0; first < count && found < changes; first += k_words_at_a_time * k_word) {
    stretch.count(classes + first, words_from(first, count), class_count);
    for (std::uint32_t k = 0; k < class_count; ++k) {
      const std::uint16_t* const before = stretch.before[k];
      std::uint32_t change = next[k];
      for (; change < end[k] && ranks[change] < stretch.members[k]; ++change) {
        const std::uint32_t rank = ranks[change];
        // The last word that has no more members before it than the rank says, by halves.
        std::uint32_t word = 0;
#pragma GCC unroll 6
        for (std::uint32_t half = k_words_at_a_time / 2; half > 0; half /= 2) {
          word += half & (0U - static_cast<std::uint32_t>(before[word + half] <= rank));
        }
        const std::uint64_t bit = _pdep_u64(1ULL << (rank - before[word]), stretch.masks[k][word]);
        positions[change] = static_cast<std::uint16_t>(first + word * k_word + _tzcnt_u64(bit));
      }
      found += change - next[k];
      next[k] = change;
    }
  }
  return found == changes;
}

namespace {

/// Takes one symbol from a coder, and one word where it needs it. Which do is not to be foretold: no branch depends on
/// it, and the word is loaded in any case.
std::uint8_t decode_one(const std::uint32_t* slots, std::uint32_t& state, const std::uint8_t*& words) {
  const std::uint32_t slot = slots[state & 1023];
  const std::uint32_t next = _bextr_u32(slot, 8, 11) * (state >> 10) + (slot >> 20);
  std::uint16_t word;
  __builtin_memcpy(&word, words, sizeof(word));
  const std::uint32_t refilled = next << 16 | word;
  const std::uint8_t* const behind = words + sizeof(word);
  asm("cmp $0x8000, %[next]\n\t"
      "cmovb %[refilled], %[next_out]\n\t"
      "cmovb %[behind], %[words]"
      : [next_out] "=&r"(state), [words] "+r"(words)
      : [next] "0"(next), [refilled] "r"(refilled), [behind] "r"(behind)
      : "cc");
  return static_cast<std::uint8_t>(slot);
}

}  // namespace

// One after the other, not side by side in a vector: gathering eight slots takes longer than loading them.
const std::uint8_t* decode_symbols_avx2(const std::uint32_t* slots, const std::uint8_t* change_classes,
                                        std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                        const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                        std::uint8_t* steps) {
  std::uint32_t begin = 0;
  if (lanes == k_lanes) {
    std::uint32_t state[k_lanes];
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) state[lane] = states[lane];
    // A round takes at most 16 words.
    for (; begin + k_lanes <= changes && words_end - words >= 32; begin += k_lanes) {
      // Most rounds are of one class.
      const std::uint32_t* const first = slots + 2048U * change_classes[begin];
      if (change_classes[begin] == change_classes[begin + k_lanes - 1]) {
#pragma GCC unroll 8
        for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
          gaps[begin + lane] = decode_one(first, state[lane], words);
        }
#pragma GCC unroll 8
        for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
          steps[begin + lane] = decode_one(first + 1024, state[lane], words);
        }
        continue;
      }
      for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
        gaps[begin + lane] = decode_one(slots + 2048U * change_classes[begin + lane], state[lane], words);
      }
      for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
        steps[begin + lane] = decode_one(slots + 2048U * change_classes[begin + lane] + 1024, state[lane], words);
      }
    }
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) states[lane] = state[lane];
  }
  return decode_symbols_scalar(slots, change_classes + begin, changes - begin, lanes, states, words, words_end,
                               gaps + begin, steps + begin);
}

std::uint32_t join_raw_bits_avx2(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                                 std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                                 std::uint16_t* ranks, std::uint32_t* distances, std::uint64_t* raw_bits) {
  std::uint64_t at = 0;
  std::uint32_t i = 0;
  std::uint64_t last = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    std::uint64_t next = 0;
    for (const std::uint32_t end = i + class_changes[k]; i < end; ++i) {
      const std::uint32_t gap = gap_symbols[i];
      const std::uint32_t distance = step_symbols[i] / 2U;
      const std::uint32_t gap_bits = k_buckets.raw_bits[gap];
      const std::uint32_t distance_bits = k_buckets.raw_bits[distance];
      std::uint64_t bits;
      __builtin_memcpy(&bits, raw + at / 8, sizeof(bits));
      bits >>= at % 8;
      distances[i] = k_buckets.begin[distance] + static_cast<std::uint32_t>(_bzhi_u64(bits >> gap_bits, distance_bits));
      at += gap_bits + distance_bits;
      next += k_buckets.begin[gap] + _bzhi_u64(bits, gap_bits);
      ranks[i] = static_cast<std::uint16_t>(next++);
    }
    last = next > last ? next : last;
  }
  *raw_bits = at;
  return last > 65537 ? 65537 : static_cast<std::uint32_t>(last);
}

}  // namespace wdelta
