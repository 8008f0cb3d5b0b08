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
#pragma GCC unroll 2
    for (std::uint32_t half = 0; half < 2; ++half) {
      __m512i before = none;
      __m512i low = none;
      __m512i last = none;
#pragma GCC unroll 4
      for (std::uint32_t row = 0; row < 4; ++row) {
        const std::uint32_t first_word = 4 * (4 * half + row);
        const __m512i one = _mm512_popcnt_epi64(members(first_word));
        const __m512i two = _mm512_add_epi64(one, _mm512_popcnt_epi64(members(first_word + 1)));
        const __m512i three = _mm512_add_epi64(two, _mm512_popcnt_epi64(members(first_word + 2)));
        const __m512i of_low = _mm512_or_si512(one, _mm512_slli_epi64(two, 8));
        before = _mm512_or_si512(before, _mm512_slli_epi64(sums, 16 * row));
        low = _mm512_or_si512(low, _mm512_slli_epi64(of_low, 16 * row));
        last = _mm512_or_si512(last, _mm512_slli_epi64(three, 16 * row));
        sums = _mm512_add_epi64(sums, _mm512_add_epi64(three, _mm512_popcnt_epi64(members(first_word + 3))));
      }
      _mm512_store_si512(before_[half], before);
      _mm512_store_si512(before_words_1_2_[half], low);
      _mm512_store_si512(before_word_3_[half], last);
    }
    // What all lanes before have is added to each.
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 7));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 6));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 4));
    __m512i lanes = _mm512_alignr_epi64(sums, none, 7);
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 16));
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 32));
    for (auto& half : before_) _mm512_store_si512(half, _mm512_add_epi16(_mm512_load_si512(half), lanes));
    members_ = static_cast<std::uint16_t>(_mm_extract_epi16(_mm512_extracti32x4_epi32(sums, 3), 4));
  }
  /// In the stretch.
  std::uint16_t members() const { return members_; }

  /// A word, counted from the beginning of the stretch, has got `more` members.
  void add(std::uint32_t word, int more) {
    alignas(64) static constexpr std::uint16_t k_order[32] = {0,  1,  2,  3,  8,  9,  10, 11, 16, 17, 18,
                                                              19, 24, 25, 26, 27, 32, 33, 34, 35, 40, 41,
                                                              42, 43, 48, 49, 50, 51, 56, 57, 58, 59};
    const auto increase = [&](std::uint16_t* counts, __mmask32 which, int by) {
      const __m512i before = _mm512_load_si512(counts);
      _mm512_store_si512(counts,
                         _mm512_mask_add_epi16(before, which, before, _mm512_set1_epi16(static_cast<short>(by))));
    };
    const int group = static_cast<int>(word / 4);
    const __m512i order = _mm512_load_si512(k_order);
    increase(before_[0], _mm512_cmpgt_epi16_mask(order, _mm512_set1_epi16(static_cast<short>(group))), more);
    increase(before_[1], _mm512_cmpgt_epi16_mask(order, _mm512_set1_epi16(static_cast<short>(group - 4))), more);
    const std::uint32_t half = word / 16 % 2;
    const __mmask32 own = 1U << (word / k_words_in_lane * 4 + word / 4 % 4);
    const std::uint32_t place = word % 4;
    if (place < 2) increase(before_words_1_2_[half], own, place == 0 ? more * 0x0101 : more * 0x0100);
    if (place < 3) increase(before_word_3_[half], own, more);
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
    const auto of_groups = [](const std::uint16_t(*counts)[4 * k_lanes], __m512i groups) {
      return _mm512_permutex2var_epi16(_mm512_load_si512(counts[0]), groups, _mm512_load_si512(counts[1]));
    };
    const auto stepped = [&](__m512i group, __m512i step, __m512i before) {
      const __m512i too_far = _mm512_srai_epi16(_mm512_sub_epi16(ranks, before), 15);
      return _mm512_ternarylogic_epi64(group, step, too_far, 0xf4);  // group | (step & ~too_far)
    };
    // Of a group bits 2-4 are the lane, and 5, 1 and 0 the row: in this order groups follow one another.
    const __m512i middle = _mm512_set1_epi16(static_cast<short>(before_[0][16]));
    __m512i group = stepped(_mm512_setzero_si512(), powers[4], middle);
    constexpr int k_exponents[] = {3, 2, 5, 1, 0};
#pragma GCC unroll 5
    for (const int exponent : k_exponents) {
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
            _mm512_add_epi16(of_groups(k_first_elements, group), _mm512_slli_epi16(place, 6)),
            _mm512_min_epu16(_mm512_min_epu16(in_group, behind_1), _mm512_min_epu16(behind_2, behind_3))};
  }

 private:
  // By group: four of each lane in a half.
  alignas(64) std::uint16_t before_[2][4 * k_lanes];
  alignas(64) std::uint16_t before_words_1_2_[2][4 * k_lanes];  // a byte each
  alignas(64) std::uint16_t before_word_3_[2][4 * k_lanes];
  std::uint16_t members_;

  // Where its first word is, as the stretch counts them, and its first element.
  alignas(64) static constexpr std::uint16_t k_first_words[2][4 * k_lanes] = {
      {0, 32, 64, 96,  1, 33, 65, 97,  2, 34, 66, 98,  3, 35, 67, 99,
       4, 36, 68, 100, 5, 37, 69, 101, 6, 38, 70, 102, 7, 39, 71, 103},
      {128, 160, 192, 224, 129, 161, 193, 225, 130, 162, 194, 226, 131, 163, 195, 227,
       132, 164, 196, 228, 133, 165, 197, 229, 134, 166, 198, 230, 135, 167, 199, 231}};
  alignas(64) static constexpr std::uint16_t k_first_elements[2][4 * k_lanes] = {
      {0,    256,  512,  768,  2048,  2304,  2560,  2816,  4096,  4352,  4608,  4864,  6144,  6400,  6656,  6912,
       8192, 8448, 8704, 8960, 10240, 10496, 10752, 11008, 12288, 12544, 12800, 13056, 14336, 14592, 14848, 15104},
      {1024, 1280, 1536, 1792, 3072,  3328,  3584,  3840,  5120,  5376,  5632,  5888,  7168,  7424,  7680,  7936,
       9216, 9472, 9728, 9984, 11264, 11520, 11776, 12032, 13312, 13568, 13824, 14080, 15360, 15616, 15872, 16128}};
};

}  // namespace
}  // namespace wdelta
