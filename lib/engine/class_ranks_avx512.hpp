// SPDX-License-Identifier: Apache-2.0
// How many members of its class lie before an element, with AVX-512; for kernel files alone, each of which gets a copy
// of its own.
#pragma once

#include "engine/class_marks_avx512.hpp"
#include "engine/kernel_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_words = 64;
constexpr std::uint32_t k_stretch = k_word * k_words;
// Lane j of the marks' vector i has word 8 * j + i: to count up to each word is to add one vector to the other.
using RankMarks = ClassMarks<k_words, 8>;

/// How many members of each class lie before each word of a stretch, for up to `4 * quarters` classes.
template <std::uint32_t quarters>
struct Census {
  alignas(64) std::uint16_t before[quarters][k_words][4];  // words as the marks have them
  __m512i members[quarters] = {};                          // of four classes, in every lane; before the stretch

  void count(const RankMarks& marks) {
#pragma GCC unroll 4
    for (std::uint32_t quarter = 0; quarter < quarters; ++quarter) count_quarter(marks, quarter);
  }

 private:
  // Four classes side by side, in 16 bits each.
  void count_quarter(const RankMarks& marks, std::uint32_t quarter) {
    const __m512i zero = _mm512_setzero_si512();
    __m512i in_lane[8];  // words before, of those in the lane
    __m512i sums = zero;
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < 8; ++i) {
      const __m512i begins = _mm512_load_si512(marks.begins + quarter * k_words + 8 * i);
      in_lane[i] = sums;
#pragma GCC unroll 4
      for (std::uint32_t end = 0; end < 4; ++end) {
        const __m512i of_class = _mm512_and_si512(begins, _mm512_load_si512(marks.ends + end * k_words + 8 * i));
        sums = _mm512_add_epi16(sums, _mm512_slli_epi64(_mm512_popcnt_epi64(of_class), 16 * end));
      }
    }
    __m512i up_to_lane = _mm512_add_epi16(sums, _mm512_maskz_alignr_epi64(0xff, sums, zero, 7));
    up_to_lane = _mm512_add_epi16(up_to_lane, _mm512_maskz_alignr_epi64(0xff, up_to_lane, zero, 6));
    up_to_lane = _mm512_add_epi16(up_to_lane, _mm512_maskz_alignr_epi64(0xff, up_to_lane, zero, 4));
    up_to_lane = _mm512_add_epi16(up_to_lane, members[quarter]);
    const __m512i before_lane = _mm512_sub_epi16(up_to_lane, sums);
    members[quarter] = _mm512_maskz_permutexvar_epi64(0xff, _mm512_set1_epi64(7), up_to_lane);
#pragma GCC unroll 8
    for (std::uint32_t i = 0; i < 8; ++i) {
      _mm512_store_si512(before[quarter] + 8 * i, _mm512_add_epi16(before_lane, in_lane[i]));
    }
  }
};

template <std::uint32_t of_classes>
struct Quarters {
  static constexpr std::uint32_t count = of_classes;
};

/// Calls visit() with as many quarters of the classes as so many bounds make.
template <class Visit>
auto with_quarters(std::uint32_t bound_count, Visit visit) {
  if (bound_count < 4) return visit(Quarters<1>());
  if (bound_count < 8) return visit(Quarters<2>());
  if (bound_count < 12) return visit(Quarters<3>());
  return visit(Quarters<4>());
}

/// The marks of one stretch and what lies before each of its words. Stretches are marked in turn.
template <class T, Order order, std::uint32_t quarters>
struct Ranks {
  RankMarks marks;
  Census<quarters> census;
  std::uint32_t marked = 0;  // elements

  void mark_up_to(const char* elements, std::uint32_t end, const ClassTable& table) {
    for (; marked < end; marked += k_stretch) {
      mark_stretch<T, order>(elements + marked * sizeof(T), end - marked < k_stretch ? end - marked : k_stretch, table,
                             marks);
      census.count(marks);
    }
  }
  /// Of each of 16 classes, of so many elements that were marked.
  void store_members(const char* elements, std::uint32_t count, const ClassTable& table, std::uint32_t* members) const {
    std::uint32_t all = 0;
    for (std::uint32_t k = 0; k < 16; ++k) {
      std::uint16_t of_class = 0;
      if (k < 4 * quarters) {
        __builtin_memcpy(&of_class, reinterpret_cast<const char*>(&census.members[k / 4]) + k % 4 * sizeof(of_class),
                         sizeof(of_class));
      }
      all += members[k] = of_class;
    }
    // All 65,536 of one class are none in 16 bits.
    if (all != count) members[table.class_of[context_of<T, order>(load<T>(elements, 0))]] = count;
  }
  // With marks and counts at hand a change needs no more than a few look-ups, whatever word it is in; where they are is
  // found for 32 changes at once. The stretch begins at position `first`.
  void rank(std::uint32_t first, const std::uint16_t* positions, const std::uint8_t* classes, std::uint32_t changes,
            std::uint16_t* ranks) const {
    std::uint16_t in_ends[k_stretch + 32];
    std::uint16_t in_begins[k_stretch + 32];
    std::uint16_t in_census[k_stretch + 32];
    for (std::uint32_t i = 0; i < changes; i += 32) {
      const __mmask32 there = _bzhi_u32(~0U, changes - i < 32 ? changes - i : 32);
      const __m512i place = _mm512_sub_epi16(_mm512_maskz_loadu_epi16(there, positions + i),
                                             _mm512_set1_epi16(static_cast<short>(first)));
      const __m512i k = _mm512_maskz_cvtepu8_epi16(there, _mm256_maskz_loadu_epi8(there, classes + i));
      const __m512i of_word = _mm512_srli_epi16(place, 6);
      const __m512i word = _mm512_or_si512(_mm512_slli_epi16(_mm512_and_si512(of_word, _mm512_set1_epi16(7)), 3),
                                           _mm512_srli_epi16(of_word, 3));
      const __m512i end = _mm512_and_si512(k, _mm512_set1_epi16(3));
      const __m512i begin = _mm512_or_si512(_mm512_slli_epi16(_mm512_srli_epi16(k, 2), 6), word);
      _mm512_storeu_si512(in_ends + i, _mm512_or_si512(_mm512_slli_epi16(end, 6), word));
      _mm512_storeu_si512(in_begins + i, begin);
      _mm512_storeu_si512(in_census + i, _mm512_or_si512(_mm512_slli_epi16(begin, 2), end));
    }
    const std::uint16_t* const before_words = &census.before[0][0][0];
    for (std::uint32_t i = 0; i < changes; ++i) {
      const std::uint64_t members = marks.ends[in_ends[i]] & marks.begins[in_begins[i]];
      const std::uint64_t before = _bzhi_u64(members, positions[i] % k_word);
      ranks[i] = static_cast<std::uint16_t>(before_words[in_census[i]] +
                                            static_cast<std::uint32_t>(__builtin_popcountll(before)));
    }
  }
};

}  // namespace
}  // namespace wdelta
