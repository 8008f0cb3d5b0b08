// SPDX-License-Identifier: Apache-2.0
#include "engine/signs_avx512.hpp"

#include "engine/column_weights.hpp"
#include "engine/element.hpp"
#include "engine/load_some_avx512.hpp"
#include "engine/row_division.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// The rows of 16 elements: products are twice as wide, so every other one at a time.
__m512i rows_of(__m512i elements, const RowDivision& division) {
  const __m512i factor = _mm512_set1_epi64(division.factor);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(division.shift));
  const __m512i even = _mm512_srl_epi64(_mm512_mul_epu32(elements, factor), shift);
  const __m512i odd = _mm512_srl_epi64(_mm512_mul_epu32(_mm512_srli_epi64(elements, 32), factor), shift);
  return _mm512_or_si512(even, _mm512_slli_epi64(odd, 32));
}

template <class T>
std::uint32_t list_rows(const SignsOfBlock* signs, const T* steps, const SignsInRows* in_rows) {
  const RowDivision division(signs->row_elements);
  const __m512i row_elements = _mm512_set1_epi32(static_cast<int>(signs->row_elements));
  const __m512i first = _mm512_set1_epi32(static_cast<int>(signs->first_element));
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i before = _mm512_set1_epi32(static_cast<int>(signs->last_row));
  std::uint32_t begun = 0;
  for (std::uint32_t i = 0; i < signs->count; i += 16) {
    const auto there = static_cast<__mmask16>(_bzhi_u32(0xffff, signs->count - i < 16 ? signs->count - i : 16));
    const __m256i positions = _mm256_maskz_loadu_epi16(there, signs->positions + i);
    const __m512i elements = _mm512_add_epi32(first, _mm512_maskz_cvtepu16_epi32(0xffff, positions));
    const __m512i rows = rows_of(elements, division);
    const __m512i columns = _mm512_sub_epi32(elements, _mm512_mullo_epi32(rows, row_elements));
    // Twice the column, and the lowest bit of the step: where the 1 has a bit, the step's.
    const __m512i signed_columns = _mm512_ternarylogic_epi32(_mm512_add_epi32(columns, columns),
                                                             load_some(there, steps + i), _mm512_set1_epi32(1), 0xf8);
    _mm512_storeu_si512(in_rows->columns + i, signed_columns);

    const __mmask16 begins =
        _mm512_mask_cmpneq_epi32_mask(there, rows, _mm512_maskz_alignr_epi32(0xffff, rows, before, 15));
    const __m512i numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(signs->first_change + i)));
    _mm512_storeu_si512(in_rows->row_indices + begun, _mm512_maskz_compress_epi32(begins, rows));
    _mm512_storeu_si512(in_rows->row_begins + begun, _mm512_maskz_compress_epi32(begins, numbers));
    begun += static_cast<std::uint32_t>(__builtin_popcount(begins));
    before = rows;
  }
  return begun;
}

}  // namespace

std::uint32_t list_rows_avx512(const SignsOfBlock* signs, const SignsInRows* in_rows) {
  return with_narrow_width(signs->width_bytes,
                           [&]<class T>(T) { return list_rows(signs, static_cast<const T*>(signs->steps), in_rows); });
}

void weigh_columns_avx512(const std::int32_t* sums, const std::int32_t* counts, std::uint32_t columns,
                          std::int32_t* room, std::int8_t* weights) {
  // Both as one number: of stores that alternate GCC 12 makes no vectors.
  weigh_columns(sums, counts, columns, room, weights, [](std::int8_t* at, std::int32_t weight) {
    const auto low = static_cast<std::uint32_t>(weight);
    const auto both = static_cast<std::uint16_t>((low & 0xff) | (0 - low) << 8);
    __builtin_memcpy(at, &both, sizeof(both));
  });
}

// Eight columns at a time, whose votes lie side by side: the odd lanes have their negative signs.
std::uint64_t fit_columns_avx512(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted) {
  constexpr __mmask16 k_odd = 0xaaaa;
  const auto swapped = [](__m512i lanes) { return _mm512_maskz_shuffle_epi32(0xffff, lanes, _MM_PERM_CDAB); };
  const __m512i half = _mm512_set1_epi32(0xffff);
  __m512i agreeing = _mm512_setzero_si512();
  for (std::uint32_t first = 0; first < columns; first += 8) {
    const std::uint32_t left = columns - first;
    const auto there = static_cast<__mmask8>(_bzhi_u32(0xff, left < 8 ? left : 8));
    const __m512i some = _mm512_maskz_loadu_epi64(there, votes + std::size_t{2} * first);
    const __m512i in_left_rows = _mm512_and_si512(some, half);
    const __m512i in_turned_rows = _mm512_srli_epi32(some, 16);
    const __m512i all = _mm512_add_epi32(in_left_rows, in_turned_rows);
    const __m512i all_others = swapped(all);
    const __m512i turned = _mm512_add_epi32(in_left_rows, swapped(in_turned_rows));
    fitted->as_they_are[first / 8] =
        static_cast<std::uint8_t>(_pext_u32(_mm512_mask_cmpgt_epu32_mask(k_odd, all, all_others), k_odd));
    fitted->as_turned[first / 8] =
        static_cast<std::uint8_t>(_pext_u32(_mm512_mask_cmpgt_epu32_mask(k_odd, turned, swapped(turned)), k_odd));
    agreeing = _mm512_add_epi64(agreeing, _mm512_srli_epi64(_mm512_maskz_max_epu32(0xffff, all, all_others), 32));
  }
  return static_cast<std::uint64_t>(_mm512_reduce_add_epi64(agreeing));
}

// Most rows have a dozen changes or so: one register, whatever their number.
void count_negatives_avx512(const std::uint8_t* signs, const std::uint32_t* begins, std::uint32_t rows,
                            std::uint32_t* negatives) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint32_t end = begins[row + 1];
    std::uint64_t count = 0;
    for (std::uint32_t at = begins[row]; at < end; at += 64) {
      const std::uint32_t left = end - at;
      const __mmask64 there = _bzhi_u64(~0ULL, left < 64 ? left : 64);
      const __m512i some = _mm512_maskz_loadu_epi8(there, signs + at);
      count += static_cast<std::uint64_t>(__builtin_popcountll(_mm512_test_epi8_mask(some, some)));
    }
    negatives[row] = static_cast<std::uint32_t>(count);
  }
}

std::uint32_t set_signs_avx512(std::uint8_t* step_symbols, const std::uint8_t* signs, std::uint32_t count) {
  std::uint64_t negatives = 0;
  for (std::uint32_t i = 0; i < count; i += 64) {
    const std::uint32_t left = count - i;
    const __mmask64 there = _bzhi_u64(~0ULL, left < 64 ? left : 64);
    const __m512i some = _mm512_maskz_loadu_epi8(there, signs + i);
    const __m512i symbols = _mm512_maskz_loadu_epi8(there, step_symbols + i);
    // Where the 1 has a bit, the sign's; else the symbol's.
    const __m512i signed_symbols = _mm512_ternarylogic_epi64(_mm512_set1_epi8(1), some, symbols, 0xca);
    _mm512_mask_storeu_epi8(step_symbols + i, there, signed_symbols);
    negatives += static_cast<std::uint64_t>(__builtin_popcountll(_mm512_test_epi8_mask(some, some)));
  }
  return static_cast<std::uint32_t>(negatives);
}

}  // namespace wdelta
