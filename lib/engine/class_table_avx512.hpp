// SPDX-License-Identifier: Apache-2.0
// Classes by context in registers, with AVX-512; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include "engine/kernel_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_word = 64;  // elements

/// Of eight times eight bytes the first of each, then the second of each, and so on.
alignas(64) constexpr std::uint8_t k_transposed_bytes[64] = {
    0,  8,  16, 24, 32, 40, 48, 56, 1,  9,  17, 25, 33, 41, 49, 57, 2,  10, 18, 26, 34, 42,
    50, 58, 3,  11, 19, 27, 35, 43, 51, 59, 4,  12, 20, 28, 36, 44, 52, 60, 5,  13, 21, 29,
    37, 45, 53, 61, 6,  14, 22, 30, 38, 46, 54, 62, 7,  15, 23, 31, 39, 47, 55, 63};

/// Bounds of weights lie close together: then one register holds the classes of all contexts around them.
enum class Span { narrow, wide };

/// Where contexts are in that register, which begins with `first`, in all lanes.
__m512i narrow_places(__m512i contexts, __m512i first) {
  return _mm512_min_epu8(_mm512_subs_epu8(contexts, first), _mm512_set1_epi8(63));
}

struct ClassTable {
  ClassTable(const std::uint8_t* bounds, std::uint32_t bound_count) {
    for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
      const __m512i contexts =
          _mm512_add_epi8(_mm512_load_si512(k_counting.bytes), _mm512_set1_epi8(static_cast<char>(64 * quarter)));
      quarters[quarter] = _mm512_setzero_si512();
      for (std::uint32_t i = 0; i < bound_count; ++i) {
        const __mmask64 not_below = _mm512_cmpge_epu8_mask(contexts, _mm512_set1_epi8(static_cast<char>(bounds[i])));
        quarters[quarter] = _mm512_mask_add_epi8(quarters[quarter], not_below, quarters[quarter], _mm512_set1_epi8(1));
      }
      _mm512_store_si512(class_of + 64 * quarter, quarters[quarter]);
    }
    _mm512_store_si512(class_of + 256, _mm512_set1_epi8(static_cast<char>(bound_count)));
    first = bound_count == 0 ? 0 : bounds[0] - 1U;
    span = bound_count == 0 || bounds[bound_count - 1] - first < 64 ? Span::narrow : Span::wide;
    if (span == Span::narrow) quarters[0] = _mm512_loadu_si512(class_of + first);
  }
  template <Span of>
  __m512i classes(__m512i contexts) const {
    if constexpr (of == Span::narrow) {
      const __m512i places = narrow_places(contexts, _mm512_set1_epi8(static_cast<char>(first)));
      return _mm512_permutexvar_epi8(places, quarters[0]);
    }
    const __m512i low = _mm512_permutex2var_epi8(quarters[0], contexts, quarters[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarters[2], contexts, quarters[3]);
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(contexts), high);
  }
  alignas(64) std::uint8_t class_of[256 + 64];  // by context; the last 64 are what all beyond the last bound have
  std::uint32_t first;
  Span span;
  __m512i quarters[4];
};

}  // namespace
}  // namespace wdelta
