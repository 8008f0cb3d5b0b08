// SPDX-License-Identifier: Apache-2.0
#include "engine/signs_avx2.hpp"

#include "engine/kernel_elements.hpp"
#include "engine/load_eight_avx2.hpp"
#include "engine/row_division.hpp"
#include "engine/signs_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// Which lanes (of eight) have their bit set, one behind the other.
struct SetLanes {
  std::uint8_t of[256][8];
};
constexpr SetLanes k_set_lanes = [] {
  SetLanes lanes{};
  for (std::uint32_t mask = 0; mask < 256; ++mask) {
    std::uint32_t to = 0;
    for (std::uint8_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) != 0) lanes.of[mask][to++] = lane;
    }
  }
  return lanes;
}();

/// The rows of 8 elements: products are twice as wide, so every other one at a time.
__m256i rows_of(__m256i elements, const RowDivision& division) {
  const __m256i factor = _mm256_set1_epi64x(division.factor);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(division.shift));
  const __m256i even = _mm256_srl_epi64(_mm256_mul_epu32(elements, factor), shift);
  const __m256i odd = _mm256_srl_epi64(_mm256_mul_epu32(_mm256_srli_epi64(elements, 32), factor), shift);
  return _mm256_or_si256(even, _mm256_slli_epi64(odd, 32));
}

// Most rows have a dozen changes or so, never the same number: eight lanes are written for those that begin in any
// case, so that no branch depends on where rows end.
template <class T>
std::uint32_t list_rows(const SignsOfBlock* signs, const T* steps, const SignsInRows* in_rows) {
  const RowDivision division(signs->row_elements);
  const __m256i row_elements = _mm256_set1_epi32(static_cast<int>(signs->row_elements));
  const __m256i first = _mm256_set1_epi32(static_cast<int>(signs->first_element));
  const __m256i one = _mm256_set1_epi32(1);
  // Of the eight before, the last in front.
  __m256i turned_before = _mm256_set1_epi32(static_cast<int>(signs->last_row));
  std::uint32_t begun = 0;
  std::uint32_t i = 0;
  for (; signs->count - i >= 8; i += 8) {
    const __m256i elements = _mm256_add_epi32(first, load_eight(signs->positions + i));
    const __m256i rows = rows_of(elements, division);
    const __m256i columns = _mm256_sub_epi32(elements, _mm256_mullo_epi32(rows, row_elements));
    const __m256i signed_columns =
        _mm256_or_si256(_mm256_add_epi32(columns, columns), _mm256_and_si256(load_eight(steps + i), one));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(in_rows->columns + i), signed_columns);

    const __m256i turned = _mm256_permutevar8x32_epi32(rows, _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6));
    const __m256i go_on = _mm256_cmpeq_epi32(rows, _mm256_blend_epi32(turned, turned_before, 1));
    const auto begins = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(go_on))) ^ 0xff;
    const __m256i lanes = load_eight(k_set_lanes.of[begins]);
    const __m256i numbers = _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(signs->first_change + i)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(in_rows->row_indices + begun),
                        _mm256_permutevar8x32_epi32(rows, lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(in_rows->row_begins + begun), numbers);
    begun += static_cast<std::uint32_t>(__builtin_popcount(begins));
    turned_before = turned;
  }
  if (i == signs->count) return begun;
  const auto last_row = static_cast<std::uint32_t>(_mm256_cvtsi256_si32(turned_before));
  const SignsOfBlock left = {signs->positions + i, steps + i,           signs->width_bytes, signs->count - i,
                             signs->first_element, signs->row_elements, last_row,           signs->first_change + i};
  const SignsInRows left_in_rows = {in_rows->columns + i, in_rows->row_indices + begun, in_rows->row_begins + begun};
  return begun + list_rows_scalar(&left, &left_in_rows);
}

}  // namespace

std::uint32_t list_rows_avx2(const SignsOfBlock* signs, const SignsInRows* in_rows) {
  return with_narrow_width(signs->width_bytes,
                           [&]<class T>(T) { return list_rows(signs, static_cast<const T*>(signs->steps), in_rows); });
}

std::uint64_t fit_columns_avx2(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted) {
  const __m256i half = _mm256_set1_epi32(0xffff);
  const auto mask_of = [](__m256i are) {
    return static_cast<std::uint8_t>(_mm256_movemask_ps(_mm256_castsi256_ps(are)));
  };
  __m256i agreeing = _mm256_setzero_si256();
  std::uint32_t first = 0;
  for (; columns - first >= 8; first += 8) {
    // The votes of eight columns, positive signs and negative ones alternately: taken apart within halves of registers.
    const auto* const vectors = reinterpret_cast<const __m256i*>(votes + std::size_t{2} * first);
    const __m256 low = _mm256_castsi256_ps(_mm256_loadu_si256(vectors));
    const __m256 high = _mm256_castsi256_ps(_mm256_loadu_si256(vectors + 1));
    const __m256i positive = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0x88)), 0xd8);
    const __m256i negative = _mm256_permute4x64_epi64(_mm256_castps_si256(_mm256_shuffle_ps(low, high, 0xdd)), 0xd8);
    const __m256i left_positive = _mm256_and_si256(positive, half);
    const __m256i left_negative = _mm256_and_si256(negative, half);
    const __m256i turned_positive = _mm256_srli_epi32(positive, 16);
    const __m256i turned_negative = _mm256_srli_epi32(negative, 16);
    const __m256i all_positive = _mm256_add_epi32(left_positive, turned_positive);
    const __m256i all_negative = _mm256_add_epi32(left_negative, turned_negative);
    fitted->as_they_are[first / 8] = mask_of(_mm256_cmpgt_epi32(all_negative, all_positive));
    fitted->as_turned[first / 8] = mask_of(_mm256_cmpgt_epi32(_mm256_add_epi32(left_negative, turned_positive),
                                                              _mm256_add_epi32(left_positive, turned_negative)));
    const __m256i most = _mm256_max_epu32(all_positive, all_negative);
    agreeing = _mm256_add_epi64(agreeing, _mm256_add_epi64(_mm256_srli_epi64(most, 32),
                                                           _mm256_and_si256(most, _mm256_set1_epi64x(0xffffffff))));
  }
  alignas(32) std::uint64_t sums[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(sums), agreeing);
  const FittedColumns left = {fitted->as_they_are + first / 8, fitted->as_turned + first / 8};
  return sums[0] + sums[1] + sums[2] + sums[3] +
         fit_columns_scalar(votes + std::size_t{2} * first, columns - first, &left);
}

namespace {

/// A bit for each of 32 signs.
std::uint32_t negatives_of(const std::uint8_t* signs) {
  const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(signs));
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(some, _mm256_set1_epi8(1))));
}

}  // namespace

// Most rows have a dozen changes or so: of the 32 before its end those that were not looked at, whatever their number.
void count_negatives_avx2(const std::uint8_t* signs, const std::uint32_t* begins, std::uint32_t rows,
                          std::uint32_t* negatives) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::uint32_t end = begins[row + 1];
    std::uint32_t at = begins[row];
    std::uint32_t count = 0;
    for (; end - at >= 32; at += 32) {
      count += static_cast<std::uint32_t>(__builtin_popcount(negatives_of(signs + at)));
    }
    if (end >= 32) {
      const std::uint64_t last = negatives_of(signs + end - 32);
      count += static_cast<std::uint32_t>(__builtin_popcountll(last >> (32 - (end - at))));
    } else {
      for (; at < end; ++at) count += signs[at];
    }
    negatives[row] = count;
  }
}

std::uint32_t set_signs_avx2(std::uint8_t* step_symbols, const std::uint8_t* signs, std::uint32_t count) {
  const __m256i one = _mm256_set1_epi8(1);
  std::uint32_t negatives = 0;
  std::uint32_t i = 0;
  for (; count - i >= 32; i += 32) {
    const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(signs + i));
    auto* const symbols = reinterpret_cast<__m256i*>(step_symbols + i);
    _mm256_storeu_si256(symbols, _mm256_or_si256(_mm256_andnot_si256(one, _mm256_loadu_si256(symbols)), some));
    negatives += static_cast<std::uint32_t>(__builtin_popcount(negatives_of(signs + i)));
  }
  return negatives + set_signs_scalar(step_symbols + i, signs + i, count - i);
}

}  // namespace wdelta
