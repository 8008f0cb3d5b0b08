// SPDX-License-Identifier: Apache-2.0
// Which elements are of which class, with AVX2; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include "engine/kernel_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_word = 64;  // elements
constexpr std::uint32_t k_words = 64;
constexpr std::uint32_t k_stretch = k_word * k_words;

/// The contexts of 32 elements: the byte below the sign, or the highest one. Their highest bit is turned round, so that
/// they compare as signed numbers.
template <class T, Order order>
__m256i contexts_of(const char* elements) {
  const auto shifted = [&](std::size_t v) {  // to the lowest byte
    const __m256i lanes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(elements) + v);
    constexpr int k_below = order == Order::plain ? 0 : 1;
    if constexpr (sizeof(T) == 1) return k_below == 0 ? lanes : _mm256_add_epi8(lanes, lanes);
    if constexpr (sizeof(T) == 2) return _mm256_srli_epi16(_mm256_slli_epi16(lanes, k_below), 8);
    return _mm256_srli_epi32(_mm256_slli_epi32(lanes, k_below), 24);
  };
  const __m256i turned_round = _mm256_set1_epi8(-128);
  if constexpr (sizeof(T) == 1) {
    return _mm256_xor_si256(shifted(0), turned_round);
  } else if constexpr (sizeof(T) == 2) {
    // Packing goes by halves of a register.
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi16(shifted(0), shifted(1)), 0xd8);
    return _mm256_xor_si256(packed, turned_round);
  } else {
    const __m256i packed =
        _mm256_packus_epi16(_mm256_packus_epi32(shifted(0), shifted(1)), _mm256_packus_epi32(shifted(2), shifted(3)));
    return _mm256_xor_si256(_mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)),
                            turned_round);
  }
}

/// The members of each class in a stretch.
struct ClassMarks {
  std::uint64_t masks[16][k_words];
  std::uint16_t before[16][k_words];  // members before each word
  std::uint32_t members[16] = {};     // before the words that are counted next

  /// `below` are the highest contexts below each bound, as contexts_of() has them.
  template <class T, Order order>
  void mark_word(const char* elements, const __m256i* below, std::uint32_t bound_count, std::uint32_t word,
                 std::uint64_t there) {
    const __m256i low = contexts_of<T, order>(elements);
    const __m256i high = contexts_of<T, order>(elements + 32 * sizeof(T));
    std::uint64_t at_least = there;  // those that have this class or a higher one
    for (std::uint32_t k = 0; k < bound_count; ++k) {
      const auto in_low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpgt_epi8(low, below[k])));
      const auto in_high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpgt_epi8(high, below[k])));
      const std::uint64_t above = (in_low | static_cast<std::uint64_t>(in_high) << 32) & there;
      masks[k][word] = at_least & ~above;
      at_least = above;
    }
    masks[bound_count][word] = at_least;
  }

  /// A whole stretch, or what is left; words that are not there are in no class.
  template <class T, Order order>
  void mark_stretch(const char* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count) {
    __m256i below[15];
    for (std::uint32_t k = 0; k < bound_count; ++k) {
      below[k] = _mm256_set1_epi8(static_cast<char>((bounds[k] - 1) ^ 0x80));
    }
    std::uint32_t word = 0;
    for (; (word + 1) * k_word <= count; ++word) {
      mark_word<T, order>(elements + word * k_word * sizeof(T), below, bound_count, word, ~0ULL);
    }
    if (word == k_words) return;
    const std::uint32_t left = count - word * k_word;
    char last[k_word * sizeof(T)] = {};
    __builtin_memcpy(last, elements + word * k_word * sizeof(T), left * sizeof(T));
    mark_word<T, order>(last, below, bound_count, word, _bzhi_u64(~0ULL, left));
    for (std::uint32_t k = 0; k <= bound_count; ++k) {
      for (std::uint32_t beyond = word + 1; beyond < k_words; ++beyond) masks[k][beyond] = 0;
    }
  }

  /// The members of a class, once the stretch is marked. Class by class, not word by word: the sum stays in a register,
  /// and what is stored lies side by side.
  void count(std::uint32_t k) {
    std::uint32_t sum = members[k];
    for (std::uint32_t word = 0; word < k_words; ++word) {
      before[k][word] = static_cast<std::uint16_t>(sum);
      sum += static_cast<std::uint32_t>(__builtin_popcountll(masks[k][word]));
    }
    members[k] = sum;
  }
};

}  // namespace
}  // namespace wdelta
