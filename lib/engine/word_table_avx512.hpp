// SPDX-License-Identifier: Apache-2.0
// Where changes with given ranks in their class lie, 32 at a time, with AVX-512; for kernel files alone, each of which
// gets a copy of its own. A stretch is 8,192 elements: class numbers as bit planes of 128 words each, and how many
// members of a class lie before each word, the words of 32 changes at a time by halves in three registers. (Stretches
// of 4,096, in two registers, took twice as long as of 16,384: each class is a chain of dependent steps, and there are
// four times as many. Those of 16,384 ask two registers at a time, in one step more: bench-engine on a Xeon, model 207,
// decode at 1 and 2.8 % changed: 16.7 and 8.8 GB/s, where these have 17.2 and 9.7.)
#pragma once

#include "engine/class_marks_avx512.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// Powers of two in every lane, in memory: made anew each time, as GCC would, they are half of the work.
struct Powers {
  Powers() {
    for (int i = 0; i < 8; ++i) _mm512_store_si512(of[i], _mm512_set1_epi16(static_cast<short>(1 << i)));
    asm volatile("" : : "r"(this) : "memory");
  }
  __m512i operator[](int exponent) const { return _mm512_load_si512(of[exponent]); }

  alignas(64) std::uint16_t of[8][32];
};

/// How many members of a class lie before each word of a stretch: of each group of four words how many lie before it,
/// and of its words how many of the group's lie before these.
class WordTable {
 public:
  /// members(i): which elements are members, word `i` of each lane.
  template <class Members>
  void count(Members members) {
    const __m512i none = _mm512_setzero_si512();
    __m512i sums = none;  // of each lane so far
    __m512i before = none;
    __m512i low = none;
    __m512i last = none;
#pragma GCC unroll 4
    for (std::uint32_t row = 0; row < 4; ++row) {
      const std::uint32_t first_word = 4 * row;
      const __m512i one = _mm512_popcnt_epi64(members(first_word));
      const __m512i two = _mm512_add_epi64(one, _mm512_popcnt_epi64(members(first_word + 1)));
      const __m512i three = _mm512_add_epi64(two, _mm512_popcnt_epi64(members(first_word + 2)));
      const __m512i of_low = _mm512_or_si512(one, _mm512_slli_epi64(two, 8));
      before = _mm512_or_si512(before, _mm512_slli_epi64(sums, 16 * row));
      low = _mm512_or_si512(low, _mm512_slli_epi64(of_low, 16 * row));
      last = _mm512_or_si512(last, _mm512_slli_epi64(three, 16 * row));
      sums = _mm512_add_epi64(sums, _mm512_add_epi64(three, _mm512_popcnt_epi64(members(first_word + 3))));
    }
    _mm512_store_si512(before_words_1_2_, low);
    _mm512_store_si512(before_word_3_, last);
    // What all lanes before have is added to each.
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 7));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 6));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 4));
    __m512i lanes = _mm512_alignr_epi64(sums, none, 7);
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 16));
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 32));
    _mm512_store_si512(before_, _mm512_add_epi16(before, lanes));
    members_ = static_cast<std::uint16_t>(_mm_extract_epi16(_mm512_extracti32x4_epi32(sums, 3), 4));
  }
  /// In the stretch.
  std::uint16_t members() const { return members_; }

  /// A word, counted from the beginning of the stretch, has got `more` members.
  void add(std::uint32_t word, int more) {
    const auto increase = [&](std::uint16_t* counts, __mmask32 which, int by) {
      const __m512i before = _mm512_load_si512(counts);
      _mm512_store_si512(counts,
                         _mm512_mask_add_epi16(before, which, before, _mm512_set1_epi16(static_cast<short>(by))));
    };
    const std::uint32_t group = word / 4;
    increase(before_, group == 31 ? 0 : ~0U << (group + 1), more);
    const __mmask32 own = 1U << group;
    const std::uint32_t place = word % 4;
    if (place < 2) increase(before_words_1_2_, own, place == 0 ? more * 0x0101 : more * 0x0100);
    if (place < 3) increase(before_word_3_, own, more);
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
    const auto of_groups = [](const std::uint16_t* counts, __m512i groups) {
      return _mm512_permutexvar_epi16(groups, _mm512_load_si512(counts));
    };
    const auto stepped = [&](__m512i group, __m512i step, __m512i before) {
      const __m512i too_far = _mm512_srai_epi16(_mm512_sub_epi16(ranks, before), 15);
      return _mm512_ternarylogic_epi64(group, step, too_far, 0xf4);  // group | (step & ~too_far)
    };
    const __m512i middle = _mm512_set1_epi16(static_cast<short>(before_[16]));
    __m512i group = stepped(_mm512_setzero_si512(), powers[4], middle);
#pragma GCC unroll 4
    for (int exponent = 3; exponent >= 0; --exponent) {
      group = stepped(group, powers[exponent], of_groups(before_, _mm512_or_si512(group, powers[exponent])));
    }
    // In the group, behind its first word, behind its second and behind its third: what lies before these is, without a
    // sign, far more than any rank.
    const __m512i in_group = _mm512_sub_epi16(ranks, of_groups(before_, group));
    const __m512i low = of_groups(before_words_1_2_, group);
    const __m512i behind_1 = _mm512_sub_epi16(in_group, _mm512_and_si512(low, _mm512_set1_epi16(0xff)));
    const __m512i behind_2 = _mm512_sub_epi16(in_group, _mm512_srli_epi16(low, 8));
    const __m512i behind_3 = _mm512_sub_epi16(in_group, of_groups(before_word_3_, group));
    const auto is_before = [](__m512i behind) { return _mm512_srai_epi16(behind, 15); };  // -1 or 0
    const __m512i place = _mm512_add_epi16(_mm512_add_epi16(_mm512_set1_epi16(3), is_before(behind_1)),
                                           _mm512_add_epi16(is_before(behind_2), is_before(behind_3)));
    return {_mm512_add_epi16(of_groups(k_first_words, group), _mm512_slli_epi16(place, 3)),
            _mm512_add_epi16(_mm512_slli_epi16(group, 8), _mm512_slli_epi16(place, 6)),
            _mm512_min_epu16(_mm512_min_epu16(in_group, behind_1), _mm512_min_epu16(behind_2, behind_3))};
  }

 private:
  // By group: four of each lane.
  alignas(64) std::uint16_t before_[4 * k_lanes];
  alignas(64) std::uint16_t before_words_1_2_[4 * k_lanes];  // a byte each
  alignas(64) std::uint16_t before_word_3_[4 * k_lanes];
  std::uint16_t members_;

  // Where its first word is, as the stretch counts them.
  alignas(64) static constexpr std::uint16_t k_first_words[4 * k_lanes] = {
      0, 32, 64, 96,  1, 33, 65, 97,  2, 34, 66, 98,  3, 35, 67, 99,
      4, 36, 68, 100, 5, 37, 69, 101, 6, 38, 70, 102, 7, 39, 71, 103};
};

}  // namespace
}  // namespace wdelta
