// SPDX-License-Identifier: Apache-2.0
// Where members of a class with given ranks lie, with AVX2; for kernel files alone, each of which gets a copy of its
// own.
#pragma once

#include "engine/class_counts_avx2.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// As many zeros as a half has words, and then ones.
struct Step {
  std::uint16_t from[2 * k_half_words];
};
constexpr Step k_step = [] {
  Step step{};
  for (std::uint32_t i = k_half_words; i < 2 * k_half_words; ++i) step.from[i] = 0xffff;
  return step;
}();

/// How many members of a class, or of a range of them, lie before each word of a stretch. As large as a power of two,
/// which is what a look-up in an array of them asks for.
class alignas(64) ClassColumn {
 public:
  ContextRange contexts;  ///< of the members
  /// In the stretch, but for what is not there.
  std::uint32_t members() const { return members_; }

  struct Found {
    std::uint32_t word;
    std::uint32_t rank_in_word;  ///< among the members in it
  };
  /// The last word that has no more members before it than the rank, which is below members(), says. All words of a
  /// half are looked at at once: by halves of it, each step would wait for the one before.
  Found find(std::uint32_t rank) const {
    // By arithmetic: which half it is cannot be foretold.
    const std::uint32_t second = (first_half_ - 1U - rank) >> 31;
    const std::uint32_t if_second = 0 - second;
    const std::uint32_t in_half = rank - (first_half_ & if_second);
    const std::uint16_t* const before = before_[second];
    const __m256i limit = _mm256_set1_epi16(static_cast<short>(in_half));
    const auto not_beyond = [&](int i) {
      const __m256i some = _mm256_load_si256(reinterpret_cast<const __m256i*>(before) + i);
      return _mm256_cmpeq_epi16(_mm256_min_epu16(some, limit), some);
    };
    // The first is never beyond.
    const auto words =
        static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(not_beyond(0), not_beyond(1))));
    const std::uint32_t word = static_cast<std::uint32_t>(__builtin_popcount(words)) - 1;
    return {word + (half_words_ & if_second), in_half - before[word]};
  }

  /// A word has got one member more, or one less.
  void add(std::uint32_t word, int more) {
    const std::uint32_t half = word < half_words_ ? 0 : 1;
    const std::uint32_t in_half = word - half * half_words_;
    const auto* const step = reinterpret_cast<const __m256i*>(k_step.from + (k_half_words - 1 - in_half));
    const __m256i by = _mm256_set1_epi16(static_cast<short>(more));
    for (int i = 0; i < 2; ++i) {
      auto* const before = reinterpret_cast<__m256i*>(before_[half]) + i;
      _mm256_store_si256(
          before, _mm256_add_epi16(_mm256_load_si256(before), _mm256_and_si256(by, _mm256_loadu_si256(step + i))));
    }
    if (half == 0) first_half_ = static_cast<std::uint16_t>(first_half_ + more);
    members_ = static_cast<std::uint16_t>(members_ + more);
  }

  /// Of the same stretch, all but the contexts.
  void copy(const ClassColumn& other) {
    const ContextRange own = contexts;
    *this = other;
    contexts = own;
  }
  /// Those of one class or the other, of which none is in both.
  void add(const ClassColumn& other) {
    for (std::uint32_t half = 0; half < 2; ++half) {
      for (std::uint32_t word = 0; word < k_half_words; ++word) {
        before_[half][word] = static_cast<std::uint16_t>(before_[half][word] + other.before_[half][word]);
      }
    }
    first_half_ = static_cast<std::uint16_t>(first_half_ + other.first_half_);
    members_ = static_cast<std::uint16_t>(members_ + other.members_);
  }

 private:
  friend void list_columns(const CountedStretch& counted, std::uint32_t class_count, ClassColumn* columns);

  alignas(32) std::uint16_t before_[2][k_half_words];  // in the half, by word of it
  std::uint16_t half_words_;
  std::uint16_t first_half_;  // members
  std::uint16_t members_;
};

static_assert(sizeof(ClassColumn) == 256);

/// Eight times eight numbers in each half of registers: rows become columns.
void transpose(__m256i (&rows)[8]) {
  __m256i pairs[8];
  __m256i fours[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_epi16(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi16(rows[2 * i], rows[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      fours[4 * half + 2 * i] = _mm256_unpacklo_epi32(pairs[4 * half + i], pairs[4 * half + 2 + i]);
      fours[4 * half + 2 * i + 1] = _mm256_unpackhi_epi32(pairs[4 * half + i], pairs[4 * half + 2 + i]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    rows[2 * i] = _mm256_unpacklo_epi64(fours[i], fours[4 + i]);
    rows[2 * i + 1] = _mm256_unpackhi_epi64(fours[i], fours[4 + i]);
  }
}

/// All but the contexts; of classes 0 to 7 or, where there are more, of all 16.
void list_columns(const CountedStretch& counted, std::uint32_t class_count, ClassColumn* columns) {
  for (std::uint32_t eight = 0; 8 * eight < class_count; ++eight) {
    for (std::uint32_t first = 0; first < k_half_words; first += 8) {
      __m256i rows[8];
      for (std::uint32_t i = 0; i < 8; ++i) {
        // Before words that are not there lie all members, which is beyond every rank.
        const auto& row = first + i < counted.half_words ? counted.before[eight][first + i] : counted.members[eight];
        rows[i] = _mm256_load_si256(reinterpret_cast<const __m256i*>(row));
      }
      transpose(rows);
      for (std::uint32_t i = 0; i < 8; ++i) {
        ClassColumn& column = columns[8 * eight + i];
        _mm_store_si128(reinterpret_cast<__m128i*>(column.before_[0] + first), _mm256_castsi256_si128(rows[i]));
        _mm_store_si128(reinterpret_cast<__m128i*>(column.before_[1] + first), _mm256_extracti128_si256(rows[i], 1));
      }
    }
  }
  for (std::uint32_t k = 0; k < class_count; ++k) {
    columns[k].half_words_ = static_cast<std::uint16_t>(counted.half_words);
    columns[k].first_half_ = counted.members[k / 8][0][k % 8];
    columns[k].members_ = static_cast<std::uint16_t>(counted.members_of(k));
  }
}

}  // namespace
}  // namespace wdelta
