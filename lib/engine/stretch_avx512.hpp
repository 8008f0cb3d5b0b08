// SPDX-License-Identifier: Apache-2.0
// Where the members of each class are, a few words of elements at a time; for kernel files alone, each of which gets a
// copy of its own.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_word = 64;             // elements per mask
constexpr std::uint32_t k_words_at_a_time = 64;  // whose masks fit into the first-level cache

/// The members of each class in a few words: as masks, and how many lie before each word. The number of classes is
/// known when this is compiled, so that what belongs to a class stays in registers.
template <std::uint32_t class_count>
struct Stretch {
  alignas(64) std::uint64_t masks[class_count][k_words_at_a_time];
  alignas(64) std::uint16_t before[class_count][k_words_at_a_time];
  std::uint16_t members[class_count] = {};  // before the words that are counted next; 65,536 is 0

  /// Counts `words` words from `classes` on. Masks are all written before any is read: one that is read as part of a
  /// vector right after it was written alone waits for the store.
  void count(const std::uint8_t* classes, std::uint32_t words) {
    for (std::uint32_t word = 0; word < words; ++word) {
      const __m512i of_word = _mm512_loadu_si512(classes + word * k_word);
#pragma GCC unroll 16
      for (std::uint32_t k = 0; k < class_count; ++k) {
        masks[k][word] = _mm512_cmpeq_epi8_mask(of_word, _mm512_set1_epi8(static_cast<char>(k)));
      }
    }
    for (std::uint32_t k = 0; k < class_count; ++k) {
      for (std::uint32_t word = words; word < k_words_at_a_time; ++word) masks[k][word] = 0;
      __m128i carry = _mm_set1_epi16(static_cast<short>(members[k]));
      for (std::uint32_t word = 0; word < k_words_at_a_time; word += 8) {
        const __m512i counts = _mm512_popcnt_epi64(_mm512_load_si512(masks[k] + word));
        __m128i sums = _mm512_maskz_cvtepi64_epi16(0xff, counts);
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 2));
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 4));
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 8));
        sums = _mm_add_epi16(sums, carry);
        // Sums up to each word, from the one before the first on.
        _mm_store_si128(reinterpret_cast<__m128i*>(before[k] + word), _mm_alignr_epi8(sums, carry, 14));
        carry = _mm_shuffle_epi8(sums, _mm_set1_epi16(0x0f0e));
      }
      members[k] = static_cast<std::uint16_t>(_mm_extract_epi16(carry, 7));
      // No rank is found in a word that is not there.
      for (std::uint32_t word = words; word < k_words_at_a_time; ++word) before[k][word] = 0xffff;
    }
  }
};

std::uint32_t words_from(std::uint32_t first, std::uint32_t count) {
  const std::uint32_t left = (count - first + k_word - 1) / k_word;
  return left < k_words_at_a_time ? left : k_words_at_a_time;
}

}  // namespace
}  // namespace wdelta
