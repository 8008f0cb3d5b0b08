// SPDX-License-Identifier: Apache-2.0
// ClassedKernels::join_raw_bits with AVX-512, 16 changes at a time; for the kernel file alone.
#pragma once

#include "engine/kernel_elements.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

namespace wdelta {
namespace {

/// What 16 changes have in their symbols and raw bits.
struct Sixteen {
  /// Lanes beyond `there` are symbols 0, which have no raw bits.
  Sixteen(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols, __mmask16 there) {
    gap = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, gap_symbols));
    step = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, step_symbols));
    distance = _mm512_srli_epi32(step, 1);
    gap_bits = bits_of(gap);
    distance_bits = bits_of(distance);
    bits = _mm512_add_epi32(gap_bits, distance_bits);
    bits_to_end = sums_of(bits);
  }
  /// Fills in the raw bits, a window of 64 bytes in which they begin at `from`.
  void fill(__m512i window, std::uint32_t from) {
    const __m512i at = _mm512_add_epi32(_mm512_sub_epi32(bits_to_end, bits), _mm512_set1_epi32(static_cast<int>(from)));
    const __m512i first_byte = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000);
    const __m512i bytes =
        _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi32(at, 3), first_byte), _mm512_set1_epi32(0x03020100));
    const __m512i raw =
        _mm512_srlv_epi32(_mm512_permutexvar_epi8(bytes, window), _mm512_and_si512(at, _mm512_set1_epi32(7)));
    gap = _mm512_add_epi32(begin_of(gap, gap_bits), low_bits(raw, gap_bits));
    distance =
        _mm512_add_epi32(begin_of(distance, distance_bits), low_bits(_mm512_srlv_epi32(raw, gap_bits), distance_bits));
  }

  static __m512i sums_of(__m512i lanes) {
    const __m512i none = _mm512_setzero_si512();
    lanes = _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 15));
    lanes = _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 14));
    lanes = _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 12));
    return _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 8));
  }
  static std::uint32_t last_of(__m512i lanes) {
    return static_cast<std::uint32_t>(_mm_extract_epi32(_mm512_extracti32x4_epi32(lanes, 3), 3));
  }

  // Buckets before fill(), then numbers.
  __m512i gap;
  __m512i distance;
  __m512i step;
  __m512i gap_bits;
  __m512i distance_bits;
  __m512i bits;
  __m512i bits_to_end;  // from the first lane's first one on

 private:
  static __m512i bits_of(__m512i bucket) {
    const __m512i one = _mm512_set1_epi32(1);
    return _mm512_sub_epi32(_mm512_max_epu32(_mm512_srli_epi32(bucket, 1), one), one);
  }
  static __m512i begin_of(__m512i bucket, __m512i bits) {
    const __m512i two_or_three = _mm512_or_si512(_mm512_and_si512(bucket, _mm512_set1_epi32(1)), _mm512_set1_epi32(2));
    return _mm512_sllv_epi32(_mm512_min_epu32(bucket, two_or_three), bits);
  }
  static __m512i low_bits(__m512i raw, __m512i bits) {
    return _mm512_andnot_si512(_mm512_sllv_epi32(_mm512_set1_epi32(-1), bits), raw);
  }
};

/// The same for changes with more raw bits than lanes have, one by one.
void fill_slowly(const std::uint8_t* raw, std::uint64_t at, Sixteen& changes) {
  alignas(64) std::uint32_t gap[16];
  alignas(64) std::uint32_t distance[16];
  _mm512_store_si512(gap, changes.gap);
  _mm512_store_si512(distance, changes.distance);
  const auto begin = [](std::uint32_t bucket, std::uint32_t bits) {
    return bucket < 4 ? bucket : (2 + (bucket & 1)) << bits;
  };
  for (std::uint32_t lane = 0; lane < 16; ++lane) {
    const std::uint32_t gap_bits = gap[lane] < 4 ? 0 : gap[lane] / 2 - 1;
    const std::uint32_t distance_bits = distance[lane] < 4 ? 0 : distance[lane] / 2 - 1;
    const std::uint64_t bits = load<std::uint64_t>(raw + at / 8, 0) >> (at % 8);
    gap[lane] = begin(gap[lane], gap_bits) + static_cast<std::uint32_t>(_bzhi_u64(bits, gap_bits));
    distance[lane] =
        begin(distance[lane], distance_bits) + static_cast<std::uint32_t>(_bzhi_u64(bits >> gap_bits, distance_bits));
    at += gap_bits + distance_bits;
  }
  changes.gap = _mm512_load_si512(gap);
  changes.distance = _mm512_load_si512(distance);
}

template <class T>
void store_moves(__m512i moves, T* to) {
  if constexpr (sizeof(T) == 1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xffff, moves));
  } else if constexpr (sizeof(T) == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(0xffff, moves));
  } else {
    _mm512_storeu_si512(to, moves);
  }
}

template <class T>
std::uint32_t join_raw_bits(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                            std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                            std::uint32_t* ranks, void* moves, std::uint64_t* raw_bits) {
  constexpr std::uint32_t k_most_bits = 25;  // in 32, from any bit of a byte on
  std::uint64_t at = *raw_bits;
  std::uint32_t i = 0;
  std::uint64_t last = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    std::uint64_t next = 0;
    for (std::uint32_t left = class_changes[k]; left > 0;) {
      const std::uint32_t done = left < 16 ? left : 16;
      const auto there = static_cast<__mmask16>(_bzhi_u32(0xffff, done));
      Sixteen changes(gap_symbols + i, step_symbols + i, there);
      const std::uint32_t all_bits = Sixteen::last_of(changes.bits_to_end);
      const __mmask16 long_ones = _mm512_cmpgt_epu32_mask(changes.bits, _mm512_set1_epi32(k_most_bits));
      if (long_ones == 0 && all_bits <= 512 - 7 - 32) {
        changes.fill(_mm512_loadu_si512(raw + at / 8), at % 8);
      } else {
        fill_slowly(raw, at, changes);
      }
      at += all_bits;
      const __m512i one = _mm512_set1_epi32(1);
      const __m512i sums = Sixteen::sums_of(_mm512_maskz_add_epi32(there, changes.gap, one));
      const __m512i before = _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(next) - 1));
      _mm512_storeu_si512(ranks + i, _mm512_add_epi32(sums, before));
      next += Sixteen::last_of(sums);
      const __m512i negative = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_and_si512(changes.step, one));
      const __m512i distance = _mm512_add_epi32(changes.distance, one);
      store_moves(_mm512_sub_epi32(_mm512_xor_si512(distance, negative), negative), static_cast<T*>(moves) + i);
      i += done;
      left -= done;
    }
    last = next > last ? next : last;
  }
  *raw_bits = at;
  return last > 0xffffffff ? 0xffffffff : static_cast<std::uint32_t>(last);
}

}  // namespace
}  // namespace wdelta
