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

/// The members of each class in a few words: as masks, and how many lie before each word.
struct Stretch {
  std::uint64_t masks[16][k_words_at_a_time];
  std::uint16_t before[16][k_words_at_a_time];
  std::uint32_t members[16] = {};  // before the words that are counted next

  void count(const std::uint8_t* classes, std::uint32_t words, std::uint32_t class_count) {
    for (std::uint32_t word = 0; word < words; ++word) {
      const auto* const vectors = reinterpret_cast<const __m256i*>(classes + word * k_word);
      const __m256i low = _mm256_loadu_si256(vectors);
      const __m256i high = _mm256_loadu_si256(vectors + 1);
      for (std::uint32_t k = 0; k < class_count; ++k) {
        const __m256i is = _mm256_set1_epi8(static_cast<char>(k));
        const auto in_low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, is)));
        const auto in_high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, is)));
        masks[k][word] = in_low | static_cast<std::uint64_t>(in_high) << 32;
        before[k][word] = static_cast<std::uint16_t>(members[k]);
        members[k] += static_cast<std::uint32_t>(__builtin_popcountll(masks[k][word]));
      }
    }
    // No rank is found in a word that is not there.
    for (std::uint32_t k = 0; k < class_count; ++k) {
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
