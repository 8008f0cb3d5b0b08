// SPDX-License-Identifier: Apache-2.0
// Where changes with given ranks in their class lie, 32 at a time, with AVX-512; for kernel files alone, each of which
// gets a copy of its own. A stretch is 16,384 elements: class numbers as bit planes of 256 words each, and how many
// members of a class lie before each word, the words of 32 changes at a time by halves in a few registers. (Stretches
// of 4,096, which need no more than two registers, took twice as long: each class is a chain of dependent steps, and
// there are four times as many.)
#pragma once

#include "engine/class_marks_avx512.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_words = 256;
constexpr std::uint32_t k_stretch = k_word * k_words;
constexpr std::uint32_t k_lanes = 8;  // of a register, and of a stretch
constexpr std::uint32_t k_words_in_lane = k_words / k_lanes;

/// First the first word of each lane, then the second of each: sums along a lane need no more than additions.
using StretchMarks = ClassMarks<k_words, k_words_in_lane>;

/// Powers of two in every lane, in memory: made anew each time, as GCC would, they are half of the work.
struct Powers {
  Powers() {
    for (int i = 0; i < 8; ++i) _mm512_store_si512(of[i], _mm512_set1_epi16(static_cast<short>(1 << i)));
    asm volatile("" : : "r"(this) : "memory");
  }
  __m512i operator[](int exponent) const { return _mm512_load_si512(of[exponent]); }

  alignas(64) std::uint16_t of[8][32];
};

/// How many members of a class lie before each word of a stretch.
class WordTable {
 public:
  /// members(i): which elements are members, word `i` of each lane.
  template <class Members>
  void count(Members members) {
    __m512i sums = _mm512_setzero_si512();  // of each lane so far
    const auto before_next = [&](std::uint32_t word) {
      const __m512i before = sums;
      sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(members(word)));
      return before;
    };
    __m512i before[k_rows];
#pragma GCC unroll 8
    for (std::uint32_t row = 0; row < k_rows; ++row) {
      before[row] = before_next(4 * row);
      for (std::uint32_t word = 1; word < 4; ++word) {
        before[row] = _mm512_or_si512(before[row], _mm512_slli_epi64(before_next(4 * row + word), 16 * word));
      }
    }
    // What all lanes before have is added to each.
    const __m512i none = _mm512_setzero_si512();
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 7));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 6));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 4));
    __m512i lanes = _mm512_alignr_epi64(sums, none, 7);
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 16));
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 32));
    for (std::uint32_t row = 0; row < k_rows; ++row) {
      _mm512_store_si512(before_[row], _mm512_add_epi16(before[row], lanes));
    }
    members_ = static_cast<std::uint16_t>(_mm_extract_epi16(_mm512_extracti32x4_epi32(sums, 3), 4));
  }
  /// In the stretch.
  std::uint16_t members() const { return members_; }

  /// A word, counted from the beginning of the stretch, has got `more` members.
  void add(std::uint32_t word, int more) {
    alignas(64) static constexpr std::uint16_t k_words_of_row[32] = {
        0,   1,   2,   3,   32,  33,  34,  35,  64,  65,  66,  67,  96,  97,  98,  99,
        128, 129, 130, 131, 160, 161, 162, 163, 192, 193, 194, 195, 224, 225, 226, 227};
    const __m512i in_row = _mm512_load_si512(k_words_of_row);
    for (std::uint32_t row = 0; row < k_rows; ++row) {
      const __m512i before_row =
          _mm512_set1_epi16(static_cast<short>(static_cast<int>(word) - static_cast<int>(4 * row)));
      const __mmask32 is_behind = _mm512_cmpgt_epi16_mask(in_row, before_row);
      const __m512i before = _mm512_load_si512(before_[row]);
      _mm512_store_si512(before_[row],
                         _mm512_mask_add_epi16(before, is_behind, before, _mm512_set1_epi16(static_cast<short>(more))));
    }
    members_ = static_cast<std::uint16_t>(members_ + more);
  }

  /// Where 32 changes with these ranks lie: the last word that has no more members before it than the rank says. Steps
  /// are chosen by arithmetic, which takes half as long as by masks.
  struct Found {
    __m512i word;      ///< as the stretch counts them
    __m512i position;  ///< of its first element, in the stretch
    __m512i rank;      ///< in the word
  };
  Found find(const Powers& powers, __m512i ranks) const {
    const auto stepped = [&](__m512i word, __m512i step, __m512i before) {
      const __m512i too_far = _mm512_srai_epi16(_mm512_sub_epi16(ranks, before), 15);
      return _mm512_ternarylogic_epi64(word, step, too_far, 0xf4);  // word | (step & ~too_far)
    };
    const auto fourths_of = [&](int table) {
      alignas(64) static constexpr std::uint16_t k_fourths[32] = {0,  4,  8,  12, 16, 20, 24, 28, 32, 36, 40,
                                                                  44, 48, 52, 56, 60, 0,  4,  8,  12, 16, 20,
                                                                  24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
      const __m512i fourths = _mm512_load_si512(k_fourths);
      return _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(before(table), fourths, before(table + 1)), 0xffff0000,
                                   _mm512_permutex2var_epi16(before(table + 2), fourths, before(table + 3)));
    };
    const __m512i low_fourths = fourths_of(0);
    const __m512i high_fourths = fourths_of(4);
    // Of a word bits 0-2 are the lane and 3-5 the row, for every fourth one; then 0-1 the place in the row, 2-4 the
    // lane and 5-7 the row. The order of words goes by lane, row, place.
    const __m512i middle = _mm512_set1_epi16(static_cast<short>(before_[0][16]));
    __m512i word = stepped(_mm512_setzero_si512(), powers[2], middle);
    constexpr int k_exponents[] = {1, 0, 5, 4, 3};
#pragma GCC unroll 5
    for (const int exponent : k_exponents) {
      const __m512i further = _mm512_or_si512(word, powers[exponent]);
      word = stepped(word, powers[exponent], _mm512_permutex2var_epi16(low_fourths, further, high_fourths));
    }
    word = _mm512_slli_epi16(word, 2);
    const __mmask32 is_odd_pair = _mm512_test_epi16_mask(word, powers[6]);
    const __mmask32 is_high = _mm512_test_epi16_mask(word, powers[7]);
    const auto before_word = [&](__m512i at) {
      const auto pair = [&](int table) { return _mm512_permutex2var_epi16(before(table), at, before(table + 1)); };
      return _mm512_mask_mov_epi16(_mm512_mask_mov_epi16(pair(0), is_odd_pair, pair(2)), is_high,
                                   _mm512_mask_mov_epi16(pair(4), is_odd_pair, pair(6)));
    };
    word = stepped(word, powers[1], before_word(_mm512_or_si512(word, powers[1])));
    word = stepped(word, powers[0], before_word(_mm512_or_si512(word, powers[0])));
    const __m512i row = _mm512_and_si512(word, _mm512_set1_epi16(0xe0));
    const __m512i lane = _mm512_and_si512(_mm512_srli_epi16(word, 2), _mm512_set1_epi16(7));
    const __m512i place = _mm512_and_si512(word, _mm512_set1_epi16(3));
    const auto either = [](__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi64(a, b, c, 0xfe); };
    return {either(row, lane, _mm512_slli_epi16(place, 3)),
            either(_mm512_slli_epi16(row, 3), _mm512_slli_epi16(lane, 11), _mm512_slli_epi16(place, 6)),
            _mm512_sub_epi16(ranks, before_word(word))};
  }

 private:
  static constexpr std::uint32_t k_rows = k_words_in_lane / 4;

  __m512i before(int row) const { return _mm512_load_si512(before_[row]); }

  /// Four words of each lane in a row.
  alignas(64) std::uint16_t before_[k_rows][4 * k_lanes];
  std::uint16_t members_;
};

}  // namespace
}  // namespace wdelta
