// SPDX-License-Identifier: Apache-2.0
// Which elements of a stretch are in which range of classes, kept while a chain of deltas goes over it, with AVX-512;
// for the kernel file alone.
#pragma once

#include "engine/kernels.hpp"
#include "engine/moved_elements.hpp"
#include "engine/word_table_avx512.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_moves_at_a_time = 2048;

/// What is in which range, of one stretch at a time; its memory is lent.
class ClassMap {
 public:
  explicit ClassMap(const ClassRanges& wanted, void* scratch)
      : class_table_(wanted.bounds, wanted.bound_count), wanted_(&wanted), places_(static_cast<Places*>(scratch)) {
    for (std::uint32_t k = 0; k < 16; ++k) {
      ranges_with_[k] = 0;
      for (std::uint32_t range = 0; range < wanted.range_count; ++range) {
        const bool is_in = wanted.ranges[range].first <= k && k < wanted.ranges[range].end;
        ranges_with_[k] |= (is_in ? 1U : 0U) << range;
      }
    }
  }

  /// From now on the map is of these elements.
  template <class T, Order order>
  void look_at(const char* elements, std::uint32_t count) {
    ClassMarks marks;
    mark_stretch<T, order>(elements, count, class_table_, marks);
    for (std::uint32_t range = 0; range < wanted_->range_count; ++range) {
      const ClassRange classes = wanted_->ranges[range];
      std::uint64_t* const members = places_->members + range * k_words;
      places_->tables[range].count([&](std::uint32_t word) {
        __m512i all = _mm512_setzero_si512();
        for (std::uint32_t k = classes.first; k < classes.end; ++k) {
          const __m512i ends = _mm512_load_si512(marks.ends + (k & 3) * k_words + k_lanes * word);
          const __m512i begins = _mm512_load_si512(marks.begins + (k >> 2) * k_words + k_lanes * word);
          all = _mm512_ternarylogic_epi64(all, ends, begins, 0xf8);  // all | (ends & begins)
        }
        _mm512_store_si512(members + k_lanes * word, all);
        return all;
      });
    }
  }

  /// By context.
  const std::uint8_t* class_of() const { return class_table_.class_of; }
  /// Of each range, k_words.
  const std::uint64_t* members() const { return places_->members; }
  const WordTable& table(std::uint32_t range) const { return places_->tables[range]; }

  /// An element, counted from the beginning of the stretch, has come from one class into another.
  void cross(std::uint32_t element, std::uint32_t from, std::uint32_t to) {
    const std::uint32_t word = element / k_word;
    const std::uint64_t bit = 1ULL << (element % k_word);
    const std::uint32_t into = ranges_with_[to];
    for (std::uint32_t ranges = into ^ ranges_with_[from]; ranges != 0; ranges = _blsr_u32(ranges)) {
      const std::uint32_t range = _tzcnt_u32(ranges);
      places_->members[range * k_words + ClassMarks::place_of(word)] ^= bit;
      places_->tables[range].add(word, (into >> range & 1) != 0 ? 1 : -1);
    }
  }

  /// Ranges beyond those asked for are never touched.
  struct Places {
    alignas(64) std::uint64_t members[k_most_class_ranges * k_words];
    WordTable tables[k_most_class_ranges];
  };

 private:
  ClassTable class_table_;
  const ClassRanges* wanted_;
  Places* places_;
  std::uint32_t ranges_with_[16];  // by class, a bit for each that it is in
};

/// Which of a few elements have another context than before; their contexts are `bits` of each.
template <class T>
std::uint32_t mask_of_differing(const T* before, const T* after, std::uint32_t count, T bits) {
  const __mmask32 there = _bzhi_u32(~0U, count);
  if constexpr (sizeof(T) == 1) {
    const __m256i differ =
        _mm256_xor_si256(_mm256_maskz_loadu_epi8(there, before), _mm256_maskz_loadu_epi8(there, after));
    return _mm256_test_epi8_mask(differ, _mm256_set1_epi8(static_cast<char>(bits)));
  } else if constexpr (sizeof(T) == 2) {
    const __m512i differ =
        _mm512_xor_si512(_mm512_maskz_loadu_epi16(there, before), _mm512_maskz_loadu_epi16(there, after));
    return _mm512_test_epi16_mask(differ, _mm512_set1_epi16(static_cast<short>(bits)));
  } else {
    const auto half = [&](std::uint32_t first) {
      const auto in_half = static_cast<__mmask16>(there >> first);
      const __m512i differ = _mm512_xor_si512(_mm512_maskz_loadu_epi32(in_half, before + first),
                                              _mm512_maskz_loadu_epi32(in_half, after + first));
      return std::uint32_t{_mm512_test_epi32_mask(differ, _mm512_set1_epi32(static_cast<int>(bits)))};
    };
    return half(0) | half(16) << 16;
  }
}

/// Elements that came into another class. Few do: of those that move, the ones at the edge of an exponent.
class Crossings {
 public:
  /// Looks through the elements that were just moved.
  template <Order order, class T>
  void note(const MovedElements<T, k_moves_at_a_time>& moved, const std::uint8_t* class_of) {
    constexpr std::uint32_t k_at_a_time = 32;
    constexpr std::uint32_t k_context_shift = 8 * sizeof(T) - 8;
    constexpr T k_context = static_cast<T>(T{0xff} << k_context_shift >> (order == Order::plain ? 0 : 1));
    for (std::uint32_t begin = 0; begin < moved.count; begin += k_at_a_time) {
      const std::uint32_t count = moved.count - begin < k_at_a_time ? moved.count - begin : k_at_a_time;
      for (std::uint32_t differ = mask_of_differing(moved.before + begin, moved.after + begin, count, k_context);
           differ != 0; differ = _blsr_u32(differ)) {
        const std::uint32_t i = begin + _tzcnt_u32(differ);
        const std::uint8_t from = class_of[context_of<T, order>(moved.before[i])];
        const std::uint8_t to = class_of[context_of<T, order>(moved.after[i])];
        all_[count_ < k_most ? count_ : k_most] = {moved.position[i], from, to};
        count_ += from == to ? 0 : 1;
      }
    }
  }
  /// Whether there were more than are kept.
  bool too_many() const { return count_ > k_most; }
  /// Puts them into the map of the stretch that they are all in.
  void take_over(ClassMap& map) const {
    for (std::uint32_t i = 0; i < count_; ++i) map.cross(all_[i].position % k_stretch, all_[i].from, all_[i].to);
  }
  void clear() { count_ = 0; }

 private:
  static constexpr std::uint32_t k_most = 256;  // beyond, a map is sooner made anew
  struct Crossing {
    std::uint16_t position;
    std::uint8_t from;
    std::uint8_t to;
  };
  Crossing all_[k_most + 1];
  std::uint32_t count_ = 0;
};

}  // namespace
}  // namespace wdelta
