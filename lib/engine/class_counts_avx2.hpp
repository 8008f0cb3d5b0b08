// SPDX-License-Identifier: Apache-2.0
// How many elements of each class lie before each word of 64, with AVX2; for kernel files alone, each of which gets a
// copy of its own. Which of a word's elements are of a class is asked for few words, and found out for these alone:
// masks of all classes in every word, as AVX-512 makes them, take far longer (bench-engine on Zen 3, encode at 0.1 %
// changed: 4.0 GB/s with masks, 7.1 so).
#pragma once

#include "engine/kernel_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_word = 64;  // elements
constexpr std::uint32_t k_words = 64;
constexpr std::uint32_t k_stretch = k_word * k_words;
// The lower half of a register is for a word of the first half of a stretch, the upper for the same of the second: sums
// of each half go on in a register, and packing leaves elements in their order.
constexpr std::uint32_t k_half_words = k_words / 2;
constexpr std::uint32_t k_classes = 16;

/// Contexts from the first to the last.
class ContextRange {
 public:
  ContextRange() = default;
  ContextRange(std::uint32_t first, std::uint32_t last)
      : first_(_mm256_set1_epi8(static_cast<char>(first))),
        above_first_(_mm256_set1_epi8(static_cast<char>(last - first))) {}
  /// Which of the 64 contexts of a word are in it.
  std::uint64_t mask(const std::uint8_t* contexts) const {
    const auto half = [&](int i) {
      const __m256i above = _mm256_sub_epi8(_mm256_load_si256(reinterpret_cast<const __m256i*>(contexts) + i), first_);
      const __m256i is_in = _mm256_cmpeq_epi8(_mm256_min_epu8(above, above_first_), above);
      return std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(is_in))};
    };
    return half(0) | half(1) << 32;
  }

 private:
  __m256i first_;
  __m256i above_first_;
};

/// Bounds of weights lie close together: then where a context lies behind the first is what to look its class up by.
enum class Span { narrow, wide };

class ClassTable {
 public:
  ClassTable(const std::uint8_t* bounds, std::uint32_t bound_count) : bounds_(bounds), bound_count_(bound_count) {
    list_classes(bounds, bound_count, class_of_);
    const std::uint32_t before_first = bound_count == 0 ? 0 : bounds[0] - 1U;
    first_ = _mm256_set1_epi8(static_cast<char>(before_first));
    span_ = bound_count == 0 || bounds[bound_count - 1] - before_first < 16 ? Span::narrow : Span::wide;
    alignas(16) std::uint8_t classes[16];  // by place
    for (std::uint32_t place = 0; place < 16; ++place) {
      const std::uint32_t context = before_first + place;
      classes[place] =
          span_ == Span::wide ? static_cast<std::uint8_t>(place) : class_of_[context < 256 ? context : 255];
    }
    const __m128i by_place = _mm_load_si128(reinterpret_cast<const __m128i*>(classes));
    for (int pair = 0; pair < 8; ++pair) {
      const auto ones = [&](int of_class, char one) {
        return _mm_and_si128(_mm_cmpeq_epi8(by_place, _mm_set1_epi8(static_cast<char>(of_class))), _mm_set1_epi8(one));
      };
      nibbles_[pair] = _mm256_broadcastsi128_si256(_mm_or_si128(ones(2 * pair, 1), ones(2 * pair + 1, 16)));
    }
    for (std::uint32_t k = 0; k <= bound_count; ++k) contexts_[k] = contexts_of_classes(k, k + 1);
  }

  std::uint8_t class_of(std::uint8_t context) const { return class_of_[context]; }
  std::uint32_t class_count() const { return bound_count_ + 1; }
  Span span() const { return span_; }

  /// Two numbers below 16 for each place, side by side in a byte: 1 for the class of the pair that it is of.
  const __m256i& nibbles(std::uint32_t pair) const { return nibbles_[pair]; }
  template <Span of>
  __m256i places(__m256i contexts) const {
    if constexpr (of == Span::narrow) {
      return _mm256_min_epu8(_mm256_subs_epu8(contexts, first_), _mm256_set1_epi8(15));
    }
    __m256i classes = _mm256_setzero_si256();
    for (std::uint32_t k = 0; k < bound_count_; ++k) {
      const __m256i bound = _mm256_set1_epi8(static_cast<char>(bounds_[k]));
      classes = _mm256_sub_epi8(classes, _mm256_cmpeq_epi8(_mm256_max_epu8(contexts, bound), contexts));
    }
    return classes;
  }

  const ContextRange* contexts() const { return contexts_; }  ///< by class
  /// Of consecutive classes.
  ContextRange contexts_of_classes(std::uint32_t first, std::uint32_t end) const {
    return ContextRange(first == 0 ? 0 : bounds_[first - 1], end > bound_count_ ? 255 : bounds_[end - 1] - 1U);
  }

 private:
  const std::uint8_t* bounds_;
  std::uint32_t bound_count_;
  Span span_;
  __m256i first_;
  __m256i nibbles_[8];
  ContextRange contexts_[k_classes];
  std::uint8_t class_of_[256];
};

/// The contexts of 16 elements in each half of a register: the byte below the sign, or the highest one.
template <class T, Order order>
__m256i contexts_of(const char* low, const char* high) {
  const auto shifted = [&](std::size_t v) {  // to the lowest byte
    const __m256i lanes =
        _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low) + v)),
                                _mm_loadu_si128(reinterpret_cast<const __m128i*>(high) + v), 1);
    constexpr bool is_plain = order == Order::plain;
    if constexpr (sizeof(T) == 1) return is_plain ? lanes : _mm256_add_epi8(lanes, lanes);
    if constexpr (sizeof(T) == 2) return _mm256_srli_epi16(is_plain ? lanes : _mm256_add_epi16(lanes, lanes), 8);
    return _mm256_srli_epi32(is_plain ? lanes : _mm256_add_epi32(lanes, lanes), 24);
  };
  if constexpr (sizeof(T) == 1) return shifted(0);
  if constexpr (sizeof(T) == 2) return _mm256_packus_epi16(shifted(0), shifted(1));
  if constexpr (sizeof(T) == 4) {
    return _mm256_packus_epi16(_mm256_packus_epi32(shifted(0), shifted(1)),
                               _mm256_packus_epi32(shifted(2), shifted(3)));
  }
}

/// Members of the classes in two words, 16 bits for each class: those of one in the lower half of a register, those of
/// the other in the upper.
struct WordCounts {
  __m256i low;   // of classes 0 to 7
  __m256i high;  // of 8 to 15
};

/// `places` are those of 16 elements of each word four times; `pairs` of classes are asked for: 4, 6 or 8.
template <std::uint32_t pairs>
__attribute__((always_inline)) inline WordCounts count_classes(const ClassTable& table, const __m256i (&places)[4]) {
  const auto added = [&](std::uint32_t pair) {  // each nibble at most 4
    const __m256i ones = table.nibbles(pair);
    return _mm256_add_epi8(_mm256_add_epi8(_mm256_shuffle_epi8(ones, places[0]), _mm256_shuffle_epi8(ones, places[1])),
                           _mm256_add_epi8(_mm256_shuffle_epi8(ones, places[2]), _mm256_shuffle_epi8(ones, places[3])));
  };
  // Two pairs in 64 bits each, and then their classes in 16 bits each: the even, and 16 bits above these the odd.
  const auto in_two = [&](std::uint32_t pair, std::uint32_t next) {
    const __m256i a = added(pair);
    const __m256i b = added(next);
    const __m256i both = _mm256_add_epi8(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));  // at most 8
    const __m256i nibble = _mm256_set1_epi8(15);
    const __m256i none = _mm256_setzero_si256();
    const __m256i even = _mm256_sad_epu8(_mm256_and_si256(both, nibble), none);
    const __m256i odd = _mm256_sad_epu8(_mm256_and_si256(_mm256_srli_epi16(both, 4), nibble), none);
    return _mm256_or_si256(even, _mm256_slli_epi64(odd, 16));
  };
  const auto in_four = [&](std::uint32_t pair) {
    return _mm256_or_si256(in_two(pair, pair + 2), _mm256_slli_epi64(in_two(pair + 1, pair + 3), 32));
  };
  if constexpr (pairs == 4) return {in_four(0), _mm256_setzero_si256()};
  if constexpr (pairs == 6) return {in_four(0), _mm256_shuffle_epi32(in_two(4, 5), 0b11'01'10'00)};
  if constexpr (pairs == 8) return {in_four(0), in_four(4)};
}

/// A stretch of elements, in halves of as many words.
struct CountedStretch {
  alignas(32) std::uint8_t contexts[k_stretch];
  alignas(32) std::uint16_t before[2][k_half_words][2][8];  ///< by class / 8, word of the half, half and class % 8:
                                                            ///< members in the half before the word
  alignas(32) std::uint16_t members[2][2][8];               ///< by class / 8, half and class % 8
  std::uint32_t half_words;                                 ///< at most k_half_words
  std::uint32_t idle;                                       ///< elements of class 0 that are not there, the last

  /// Of all but what is not there.
  std::uint32_t members_of(std::uint32_t k) const {
    return members[k / 8][0][k % 8] + std::uint32_t{members[k / 8][1][k % 8]} - (k == 0 ? idle : 0);
  }
};

template <class T, Order order, Span span, std::uint32_t pairs>
__attribute__((noinline)) void count_words(const char* elements, const ClassTable& table, CountedStretch& counted) {
  const std::size_t half = counted.half_words * k_word;
  std::uint8_t* const kept = counted.contexts;
  WordCounts sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  const auto as_vector = [](auto& numbers) { return reinterpret_cast<__m256i*>(&numbers); };
  for (std::uint32_t word = 0; word * k_word < half; ++word) {
    __m256i places[4];
#pragma GCC unroll 4
    for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
      const std::size_t at = word * k_word + quarter * (k_word / 4);
      const char* const low = elements + at * sizeof(T);
      const __m256i contexts = contexts_of<T, order>(low, low + half * sizeof(T));
      _mm_store_si128(reinterpret_cast<__m128i*>(kept + at), _mm256_castsi256_si128(contexts));
      _mm_store_si128(reinterpret_cast<__m128i*>(kept + at + half), _mm256_extracti128_si256(contexts, 1));
      places[quarter] = table.places<span>(contexts);
    }
    const WordCounts counts = count_classes<pairs>(table, places);
    _mm256_store_si256(as_vector(counted.before[0][word]), sums.low);
    sums.low = _mm256_add_epi16(sums.low, counts.low);
    if constexpr (pairs == 4) continue;
    _mm256_store_si256(as_vector(counted.before[1][word]), sums.high);
    sums.high = _mm256_add_epi16(sums.high, counts.high);
  }
  _mm256_store_si256(as_vector(counted.members[0]), sums.low);
  _mm256_store_si256(as_vector(counted.members[1]), sums.high);
}

/// Of at most k_stretch elements.
template <class T, Order order>
void count_stretch(const char* elements, std::uint32_t length, const ClassTable& table, CountedStretch& counted) {
  counted.half_words = (length + 2 * k_word - 1) / (2 * k_word);
  counted.idle = 2 * k_word * counted.half_words - length;
  char padded[k_stretch * sizeof(T)];
  if (counted.idle > 0) {
    __builtin_memcpy(padded, elements, length * sizeof(T));
    __builtin_memset(padded + length * sizeof(T), 0, counted.idle * sizeof(T));
    elements = padded;
  }
  const auto count = [&]<Span span>() {
    if (table.class_count() <= 8) return count_words<T, order, span, 4>(elements, table, counted);
    if (table.class_count() <= 12) return count_words<T, order, span, 6>(elements, table, counted);
    count_words<T, order, span, 8>(elements, table, counted);
  };
  if (table.span() == Span::narrow) return count.template operator()<Span::narrow>();
  count.template operator()<Span::wide>();
}

}  // namespace
}  // namespace wdelta
