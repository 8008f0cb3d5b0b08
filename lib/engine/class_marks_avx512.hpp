// SPDX-License-Identifier: Apache-2.0
// Which elements of a stretch are of which class, as the patcher looks for them, with AVX-512; for kernel files alone,
// each of which gets a copy of its own. (The coder asks otherwise: class_ranks_avx512.hpp.)
#pragma once

#include "engine/class_table_avx512.hpp"
#include "engine/kernel_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_words = 128;
constexpr std::uint32_t k_stretch = k_word * k_words;
constexpr std::uint32_t k_lanes = 8;  // of a register, and of a stretch
constexpr std::uint32_t k_words_in_lane = k_words / k_lanes;

/// The contexts of 64 elements: the byte below the sign, or the highest one. In each group of eight the last comes
/// first, as the transposition of bits wants them.
template <class T, Order order>
__m512i contexts_of(const char* elements) {
  const auto shifted = [&](std::size_t v) {
    const __m512i lanes = _mm512_loadu_si512(elements + 64 * v);
    if constexpr (order == Order::plain) return lanes;
    if constexpr (sizeof(T) == 1) return _mm512_add_epi8(lanes, lanes);
    if constexpr (sizeof(T) == 2) return _mm512_add_epi16(lanes, lanes);
    return _mm512_add_epi32(lanes, lanes);
  };
  const __m512i turned_round =
      _mm512_set4_epi64(0x08090a0b0c0d0e0f, 0x0001020304050607, 0x08090a0b0c0d0e0f, 0x0001020304050607);
  if constexpr (sizeof(T) == 1) {
    return _mm512_shuffle_epi8(shifted(0), turned_round);
  } else if constexpr (sizeof(T) == 2) {
    alignas(64) static constexpr std::uint8_t k_high_bytes[64] = {
        15, 13, 11, 9,  7,   5,   3,   1,   31,  29,  27, 25, 23,  21,  19,  17,  47,  45,  43,  41, 39, 37,
        35, 33, 63, 61, 59,  57,  55,  53,  51,  49,  79, 77, 75,  73,  71,  69,  67,  65,  95,  93, 91, 89,
        87, 85, 83, 81, 111, 109, 107, 105, 103, 101, 99, 97, 127, 125, 123, 121, 119, 117, 115, 113};
    return _mm512_permutex2var_epi8(shifted(0), _mm512_load_si512(k_high_bytes), shifted(1));
  } else {
    const auto quarter = [&](std::size_t v) {
      return _mm512_maskz_cvtepi32_epi8(0xffff, _mm512_srli_epi32(shifted(v), 24));
    };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(0)), quarter(1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(2)), quarter(3), 1);
    return _mm512_shuffle_epi8(_mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1), turned_round);
  }
}

/// Which elements of a stretch have a class number that ends with these two bits, and which one that begins with them:
/// the members of a class are those in both. All words for the bits 0, then those for 1, 2 and 3; of each first the
/// first word of each lane, then the second of each, so that sums along a lane need no more than additions.
struct ClassMarks {
  static constexpr std::uint32_t place_of(std::uint32_t word) {
    return word % k_words_in_lane * k_lanes + word / k_words_in_lane;
  }

  alignas(64) std::uint64_t ends[4 * k_words];
  alignas(64) std::uint64_t begins[4 * k_words];
};

/// A word of each lane into bit planes, to be stored from `place` on.
template <class T, Order order, Span span>
void mark_words(const char* elements, const ClassTable& table, ClassMarks& marks, std::uint32_t place) {
  constexpr std::size_t k_bytes_apart = k_words_in_lane * k_word * sizeof(T);
  // As a matrix of bits, eight class numbers times the unit vectors are their bit planes; four are asked for.
  const __m512i units = _mm512_set1_epi64(0x0804020108040201);
  const __m512i by_plane = _mm512_load_si512(k_transposed_bytes);
  __m512i pairs[4];  // four planes of one word, four of the next
#pragma GCC unroll 4
  for (std::size_t pair = 0; pair < 4; ++pair) {
    const char* const from = elements + 2 * pair * k_bytes_apart;
    const __m512i one = table.classes<span>(contexts_of<T, order>(from));
    const __m512i next = table.classes<span>(contexts_of<T, order>(from + k_bytes_apart));
    const __m512i planes = _mm512_mask_gf2p8affine_epi64_epi8(_mm512_gf2p8affine_epi64_epi8(units, one, 0),
                                                              0xf0f0f0f0f0f0f0f0, units, next, 0);
    pairs[pair] = _mm512_permutexvar_epi8(by_plane, planes);
  }
  const __m512i lower = _mm512_set_epi64(13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i upper = _mm512_set_epi64(15, 11, 7, 3, 14, 10, 6, 2);
  const auto plane_0_1 = [&](int pair) { return _mm512_permutex2var_epi64(pairs[pair], lower, pairs[pair + 1]); };
  const auto plane_2_3 = [&](int pair) { return _mm512_permutex2var_epi64(pairs[pair], upper, pairs[pair + 1]); };
  const auto store_pairs_of = [&](std::uint64_t* words, __m512i a, __m512i b) {
    const __m512i plane = _mm512_shuffle_i64x2(a, b, 0x44);
    const __m512i higher_plane = _mm512_shuffle_i64x2(a, b, 0xee);
    _mm512_store_si512(words + place, _mm512_ternarylogic_epi64(plane, higher_plane, plane, 0x03));
    _mm512_store_si512(words + k_words + place, _mm512_andnot_si512(higher_plane, plane));
    _mm512_store_si512(words + 2 * k_words + place, _mm512_andnot_si512(plane, higher_plane));
    _mm512_store_si512(words + 3 * k_words + place, _mm512_and_si512(plane, higher_plane));
  };
  store_pairs_of(marks.ends, plane_0_1(0), plane_0_1(2));
  store_pairs_of(marks.begins, plane_2_3(0), plane_2_3(2));
}

template <class T, Order order, Span span>
void mark_stretch_in(const char* elements, std::uint32_t count, const ClassTable& table, ClassMarks& marks) {
  char padded[k_stretch * sizeof(T)];
  if (count < k_stretch) {
    __builtin_memcpy(padded, elements, count * sizeof(T));
    __builtin_memset(padded + count * sizeof(T), 0, (k_stretch - count) * sizeof(T));
    elements = padded;
  }
  for (std::uint32_t word = 0; word < k_words_in_lane; ++word) {
    mark_words<T, order, span>(elements + word * k_word * sizeof(T), table, marks, k_lanes * word);
  }
  // What is not there is in no class.
  for (std::uint32_t word = count / k_word; word < k_words; ++word) {
    const std::uint32_t before = word * k_word;
    const std::uint64_t there = count <= before ? 0 : _bzhi_u64(~0ULL, count - before);
    for (std::uint32_t bits = 0; bits < 4; ++bits) marks.begins[bits * k_words + ClassMarks::place_of(word)] &= there;
  }
}

/// Of a whole stretch, or of fewer elements; what lies behind them is in no class.
template <class T, Order order>
void mark_stretch(const char* elements, std::uint32_t count, const ClassTable& table, ClassMarks& marks) {
  if (table.span == Span::narrow) return mark_stretch_in<T, order, Span::narrow>(elements, count, table, marks);
  mark_stretch_in<T, order, Span::wide>(elements, count, table, marks);
}

}  // namespace
}  // namespace wdelta
