// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx2.hpp"

#include "engine/decoding_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_lanes = 8;

}  // namespace

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

}  // namespace wdelta
