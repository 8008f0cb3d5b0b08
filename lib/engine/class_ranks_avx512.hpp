// SPDX-License-Identifier: Apache-2.0
// How many members of its class lie before an element, as the coder asks, with AVX-512; for kernel files alone, each of
// which gets a copy of its own. Each word of 64 elements becomes sixteen masks at once, one for each class, and sixteen
// numbers of members before it; where a change ranks is then a look-up and a count, whatever class it is in. (Stretches
// of 4,096 elements, whose marks with the elements fill a first-level cache, are slower: bench-engine on a Xeon, model
// 207, encode_matrix at 1 % changed: 7.8 GB/s, and 8.6 with 2,048.)
#pragma once

#include "engine/class_table_avx512.hpp"
#include "engine/kernel_elements.hpp"

#include <array>
#include <immintrin.h>

namespace wdelta {
namespace {

/// 64 elements, in as many registers as one is wide in bytes.
template <class T>
struct Word {
  __m512i parts[sizeof(T)];
};

template <class T>
Word<T> load_word(const char* elements) {
  Word<T> word;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < sizeof(T); ++v) word.parts[v] = _mm512_loadu_si512(elements + 64 * v);
  return word;
}

/// The same for fewer, and zeros; masked loads do not touch what lies behind them.
template <class T>
Word<T> load_word(const char* elements, std::uint32_t count) {
  const std::size_t size_bytes = count * sizeof(T);
  Word<T> word;
#pragma GCC unroll 8
  for (std::size_t v = 0; v < sizeof(T); ++v) {
    const std::size_t left = size_bytes < 64 * v ? 0 : size_bytes - 64 * v;
    const __mmask64 there = left >= 64 ? ~0ULL : _bzhi_u64(~0ULL, static_cast<unsigned>(left));
    word.parts[v] = _mm512_maskz_loadu_epi8(there, elements + 64 * v);
  }
  return word;
}

/// The contexts of a word in the order that takes the fewest instructions: of each part the first, then of each the
/// second, and so on.
template <class T, Order order>
__m512i interleaved_contexts(const Word<T>& word) {
  static_assert(sizeof(T) <= 4);
  constexpr int k_above = order == Order::plain ? 0 : 1;  // bits of an element
  const auto chosen = [](__m512i where, __m512i there, __m512i elsewhere) {
    return _mm512_ternarylogic_epi64(where, there, elsewhere, 0xca);
  };
  const __m512i even_bytes = _mm512_set1_epi16(0xff);
  if constexpr (sizeof(T) == 1) {
    return k_above == 0 ? word.parts[0] : _mm512_add_epi8(word.parts[0], word.parts[0]);
  } else if constexpr (sizeof(T) == 2) {
    const __m512i odd = k_above == 0 ? word.parts[1] : _mm512_add_epi16(word.parts[1], word.parts[1]);
    return chosen(even_bytes, _mm512_srli_epi16(word.parts[0], 8 - k_above), odd);
  } else {
    const auto in_byte = [&](int byte) {
      const int up = 8 * byte + k_above - 24;
      const __m512i part = word.parts[byte];
      return up < 0 ? _mm512_srli_epi32(part, static_cast<unsigned>(-up))
                    : _mm512_slli_epi32(part, static_cast<unsigned>(up));
    };
    return chosen(_mm512_set1_epi32(0xffff), chosen(even_bytes, in_byte(0), in_byte(1)),
                  chosen(even_bytes, in_byte(2), in_byte(3)));
  }
}

/// Which bits of a mask of members, as contexts are ordered and transposed, are those of the elements before each of a
/// word; the last is of all.
template <class T>
constexpr std::array<std::uint64_t, 65> k_members_before = [] {
  constexpr std::uint32_t parts = sizeof(T);
  constexpr std::uint32_t in_part = k_word / parts;
  std::array<std::uint64_t, 65> before{};
  for (std::uint32_t i = 0; i < k_word; ++i) {
    const std::uint32_t byte = i % in_part * parts + i / in_part;
    // Of eight bytes that are transposed, the last becomes the lowest bit.
    before[i + 1] = before[i] | 1ULL << (byte / 8 * 8 + 7 - byte % 8);
  }
  return before;
}();

constexpr std::uint32_t k_words = 32;
constexpr std::uint32_t k_stretch = k_word * k_words;

/// Of a stretch, for up to `8 * eights` classes.
template <class T, Order order, Span span, std::uint32_t eights>
class Ranks {
 public:
  explicit Ranks(const ClassTable& table) : table_(&table) {
    for (__m512i& counts : counts_) counts = _mm512_setzero_si512();
  }

  /// Takes in the words of the next stretch, in order. Its own copy of all it needs stays in registers while it writes
  /// what could be anything else.
  class Marker {
   public:
    explicit Marker(Ranks& ranks)
        : ranks_(&ranks),
          first_(_mm512_set1_epi8(static_cast<char>(ranks.table_->first))),
          units_(_mm512_set1_epi64(k_units)),
          by_class_(_mm512_load_si512(k_transposed_bytes)) {
      for (std::uint32_t eight = 0; eight < eights; ++eight) {
        // Of each class its bit among the eight.
        const __m512i bits =
            eight == 0 ? _mm512_set4_epi64(0, k_units, 0, k_units) : _mm512_set4_epi64(k_units, 0, k_units, 0);
        bits_[eight] = span == Span::narrow ? _mm512_shuffle_epi8(bits, ranks.table_->quarters[0]) : bits;
        counts_[eight] = ranks.counts_[eight];
      }
    }
    void operator()(const Word<T>& elements, std::uint32_t word) {
      mark(elements, word, [](__m512i members) { return members; });
    }
    /// Of the last word of all there may be fewer.
    void operator()(const Word<T>& elements, std::uint32_t word, std::uint32_t count) {
      const __m512i there = _mm512_set1_epi64(static_cast<long long>(k_members_before<T>[count]));
      mark(elements, word, [there](__m512i members) { return _mm512_and_si512(members, there); });
    }
    /// Behind the last word.
    void finish() const {
      for (std::uint32_t eight = 0; eight < eights; ++eight) ranks_->counts_[eight] = counts_[eight];
    }

   private:
    template <class Only>
    void mark(const Word<T>& elements, std::uint32_t word, Only only) {
      const __m512i contexts = interleaved_contexts<T, order>(elements);
      __m512i places;  // in bits_
      if constexpr (span == Span::narrow) {
        places = narrow_places(contexts, first_);
      } else {
        places = ranks_->table_->template classes<span>(contexts);
      }
#pragma GCC unroll 2
      for (std::uint32_t eight = 0; eight < eights; ++eight) {
        const __m512i bits = span == Span::narrow ? _mm512_permutexvar_epi8(places, bits_[eight])
                                                  : _mm512_shuffle_epi8(bits_[eight], places);
        // As a matrix of bits, eight bytes times the unit vectors are which of them have each bit.
        const __m512i transposed = _mm512_gf2p8affine_epi64_epi8(units_, bits, 0);
        const __m512i members = only(_mm512_permutexvar_epi8(by_class_, transposed));
        const std::uint32_t at = k_classes * word + 8 * eight;
        _mm512_store_si512(ranks_->members_ + at, members);
        _mm512_store_si512(ranks_->before_ + at, counts_[eight]);
        counts_[eight] = _mm512_add_epi64(counts_[eight], _mm512_popcnt_epi64(members));
      }
    }

    static constexpr auto k_units = static_cast<long long>(0x8040201008040201);

    Ranks* ranks_;
    __m512i first_;
    __m512i units_;
    __m512i by_class_;
    __m512i bits_[eights];  // by class or, where the span is narrow, by the place of the context
    __m512i counts_[eights];
  };

  /// Takes in the next stretch; the last may be shorter.
  void mark_stretch(const char* elements, std::uint32_t length) {
    constexpr std::size_t k_word_bytes = k_word * sizeof(T);
    Marker mark(*this);
    const std::uint32_t whole = length / k_word;
    for (std::uint32_t word = 0; word < whole; ++word) mark(load_word<T>(elements + word * k_word_bytes), word);
    const std::uint32_t rest = length % k_word;
    if (rest != 0) mark(load_word<T>(elements + whole * k_word_bytes, rest), whole, rest);
    mark.finish();
  }

  /// Of an element of this class at this place in the stretch.
  std::uint16_t rank(std::uint32_t place, std::uint8_t of_class) const {
    const std::uint32_t at = k_classes * (place / k_word) + of_class;
    const std::uint64_t before = members_[at] & k_members_before<T>[place % k_word];
    return static_cast<std::uint16_t>(before_[at] + static_cast<std::uint64_t>(__builtin_popcountll(before)));
  }

  /// How many members each of 16 classes has had so far.
  void store_members(std::uint32_t* members) const {
    for (std::uint32_t eight = 0; eight < 2; ++eight) {
      const __m512i counts = eight < eights ? counts_[eight % eights] : _mm512_setzero_si512();
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(members + 8 * eight), _mm512_maskz_cvtepi64_epi32(0xff, counts));
    }
  }

 private:
  static constexpr std::uint32_t k_classes = 8 * eights;

  const ClassTable* table_;
  __m512i counts_[eights];  // of each class, before the next stretch
  alignas(64) std::uint64_t members_[k_words * k_classes];
  alignas(64) std::uint64_t before_[k_words * k_classes];
};

/// Calls visit() with the Ranks that so many bounds need.
template <class T, Order order, class Visit>
auto with_ranks(const ClassTable& table, std::uint32_t bound_count, Visit visit) {
  if (table.span == Span::wide) {
    Ranks<T, order, Span::wide, 2> ranks(table);
    return visit(ranks);
  }
  if (bound_count >= 8) {
    Ranks<T, order, Span::narrow, 2> ranks(table);
    return visit(ranks);
  }
  Ranks<T, order, Span::narrow, 1> ranks(table);
  return visit(ranks);
}

}  // namespace
}  // namespace wdelta
