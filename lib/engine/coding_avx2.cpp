// SPDX-License-Identifier: Apache-2.0
#include "engine/coding_avx2.hpp"

#include "engine/bit_string.hpp"
#include "engine/coding_scalar.hpp"
#include "engine/encode_streams.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/load_eight_avx2.hpp"
#include "engine/word_shuffles.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// Which changes are of a class: once for each class, which takes less than to wait, change by change, for where the
/// next of its class goes.
class OfClass {
 public:
  OfClass(const std::uint8_t* change_classes, std::uint32_t changes) : classes_(change_classes), changes_(changes) {
    __builtin_memset(last_, 0xff, sizeof(last_));
    __builtin_memcpy(last_, change_classes + changes / 64 * 64, changes % 64);
  }
  /// Calls move(which, how many came before) for each of class `k`, and now and then for any change behind the last.
  /// Returns how many there are.
  template <class Move>
  std::uint32_t each(std::uint32_t k, Move move) const {
    std::uint32_t found = 0;
    const auto move_some = [&](std::uint32_t first, std::uint64_t mask) {
      // Two at a time: whether there is another is foretold worse than is lost by moving one in vain.
      for (std::uint32_t to = found; mask != 0; to += 2) {
        move(first + _tzcnt_u64(mask), to);
        mask = _blsr_u64(mask);
        move(first + _tzcnt_u64(mask) % 64, to + 1);
        mask = _blsr_u64(mask);
      }
    };
    const auto visit = [&](std::uint32_t first, std::uint64_t mask) {
      move_some(first, mask);
      found += static_cast<std::uint32_t>(__builtin_popcountll(mask));
    };
    std::uint32_t first = 0;
    for (; changes_ - first >= 64; first += 64) visit(first, mask_of(classes_ + first, k));
    if (first < changes_) visit(first, mask_of(last_, k));
    return found;
  }

 private:
  static std::uint64_t mask_of(const std::uint8_t* classes, std::uint32_t k) {
    const __m256i wanted = _mm256_set1_epi8(static_cast<char>(k));
    const auto in_half = [&](std::uint32_t half) {
      const __m256i some = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(classes) + half);
      return static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(some, wanted)));
    };
    return in_half(0) | std::uint64_t{in_half(1)} << 32;
  }

  const std::uint8_t* classes_;
  std::uint32_t changes_;
  std::uint8_t last_[64];  // those that are no whole 64, and of no class behind them
};

/// How many numbers lie between each and the one before it, of the first, how many come before it. From the last on:
/// each needs the one before it.
void ranks_to_gaps(std::uint16_t* ranks, std::uint32_t count) {
  const __m256i minus_one = _mm256_set1_epi16(-1);
  std::uint32_t i = count;
  while (i > 16) {
    i -= 16;
    const __m256i before = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ranks + i - 1));
    auto* const at = reinterpret_cast<__m256i*>(ranks + i);
    _mm256_storeu_si256(at, _mm256_add_epi16(_mm256_sub_epi16(_mm256_loadu_si256(at), before), minus_one));
  }
  while (i-- > 1) ranks[i] = static_cast<std::uint16_t>(ranks[i] - ranks[i - 1] - 1);
}

template <class T>
void order(const ChangesInOrder& changes, const ChangesByClass& ordered) {
  const OfClass of_class(changes.classes, changes.count);
  const std::uint16_t* const ranks = changes.ranks;
  const auto* const steps = static_cast<const T*>(changes.steps);
  std::uint16_t* gaps = ordered.gaps;
  auto* new_steps = static_cast<T*>(ordered.steps);
  for (std::uint32_t k = 0; k < changes.class_count; ++k) {
    const std::uint32_t found = of_class.each(k, [&](std::uint64_t from, std::uint32_t to) {
      gaps[to] = ranks[from];
      new_steps[to] = steps[from];
    });
    ordered.class_changes[k] = found;
    ordered.rank_ends[k] = found == 0 ? 0 : gaps[found - 1] + 1U;
    ranks_to_gaps(gaps, found);
    gaps += found;
    new_steps += found;
  }
}

}  // namespace

void order_by_class_avx2(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered) {
  with_narrow_width(width_bytes, [&]<class T>(T) { order<T>(*changes, *ordered); });
}

void order_bytes_by_class_avx2(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                               const std::uint8_t* bytes, std::uint8_t* ordered) {
  const OfClass of_class(change_classes, changes);
  for (std::uint32_t k = 0; k < class_count; ++k) {
    ordered += of_class.each(k, [&](std::uint64_t from, std::uint32_t to) { ordered[to] = bytes[from]; });
  }
}

// One comparison for every symbol up to the largest, of 64 at a time: counting one after the other would wait for what
// was just written whenever a symbol comes again.
void count_symbols_avx2(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                        std::uint32_t* counts) {
  std::uint32_t first = 0;
  for (; first + 64 <= count; first += 64) {
    const auto* const vectors = reinterpret_cast<const __m256i*>(symbols + first);
    const __m256i low = _mm256_loadu_si256(vectors);
    const __m256i high = _mm256_loadu_si256(vectors + 1);
    std::uint32_t left = 64;
    for (std::uint32_t symbol = 0; symbol < symbol_count && left != 0; ++symbol) {
      const __m256i is = _mm256_set1_epi8(static_cast<char>(symbol));
      const auto in_low = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, is)));
      const auto in_high = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, is)));
      const auto found = static_cast<std::uint32_t>(__builtin_popcount(in_low) + __builtin_popcount(in_high));
      counts[symbol] += found;
      left -= found;
    }
  }
  count_symbols_scalar(symbols + first, count - first, symbol_count, counts);
}

namespace {

/// Four coders side by side, in 64 bits each.
struct FourStates {
  __m256i x;

  /// Those that are full give a word each: returns which, and takes the word away.
  [[gnu::always_inline]] std::uint32_t give(__m256i entries, __m256i& before) {
    // Where it is not below the frequency times 2^21, others times 2^21 take it to 2^31; here 32 bits above.
    const __m256i others = _mm256_and_si256(entries, _mm256_set1_epi64x(std::int64_t{0x3ff} << 53));
    const __m256d is_full = _mm256_castsi256_pd(_mm256_add_epi64(_mm256_slli_epi64(x, 32), others));
    before = x;
    x = _mm256_castpd_si256(
        _mm256_blendv_pd(_mm256_castsi256_pd(x), _mm256_castsi256_pd(_mm256_srli_epi64(x, 16)), is_full));
    return static_cast<std::uint32_t>(_mm256_movemask_pd(is_full));
  }
  [[gnu::always_inline]] void take(__m256i entries) {
    const __m256i begin = _mm256_and_si256(entries, _mm256_set1_epi64x(0x3ff));
    const __m256i others = _mm256_srli_epi64(entries, 53);
    // The factor in two parts: 52 bits are more than can be multiplied.
    const __m256i high = _mm256_and_si256(_mm256_srli_epi64(entries, 32), _mm256_set1_epi64x(0xfffff));
    const __m256i of_low = _mm256_srli_epi64(_mm256_mul_epu32(x, entries), 32);
    const __m256i quotient = _mm256_srli_epi64(_mm256_add_epi64(_mm256_mul_epu32(x, high), of_low), 19);
    x = _mm256_add_epi64(_mm256_add_epi64(x, begin), _mm256_mul_epu32(quotient, others));
  }
};

/// Eight coders. To be kept in registers: what is written is written to words alone, and all is inline, as GCC would
/// not have it.
class EightCoders {
 public:
  explicit EightCoders(const SymbolStream& stream)
      : low_{states_at(stream.states)}, high_{states_at(stream.states + 4)}, words_(stream.words) {}
  void finish(SymbolStream& stream) const {
    alignas(32) std::uint64_t states[k_lanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(states), low_.x);
    _mm256_store_si256(reinterpret_cast<__m256i*>(states + 4), high_.x);
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) stream.states[lane] = static_cast<std::uint32_t>(states[lane]);
    stream.words = words_;
  }

  [[gnu::always_inline]] void encode_round(const EntryFetcher& fetched, std::uint32_t first) {
    encode_eight(fetched.steps + first);
    encode_eight(fetched.gaps + first);
  }

 private:
  static __m256i states_at(const std::uint32_t* states) {
    return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(states)));
  }
  /// Gives a symbol to each. No branch depends on which of them are full: eight words are written in any case, in front
  /// of the last.
  [[gnu::always_inline]] void encode_eight(const std::uint64_t* entries) {
    const __m256i of_low = _mm256_load_si256(reinterpret_cast<const __m256i*>(entries));
    const __m256i of_high = _mm256_load_si256(reinterpret_cast<const __m256i*>(entries + 4));
    __m256i low_before;
    __m256i high_before;
    const std::uint32_t full = low_.give(of_low, low_before) | high_.give(of_high, high_before) << 4;
    // Lanes of 128 bits: states 0, 1, 4, 5 and 2, 3, 6, 7, their low 16 bits first.
    const __m256i states =
        _mm256_castps_si256(_mm256_shuffle_ps(_mm256_castsi256_ps(low_before), _mm256_castsi256_ps(high_before), 0x88));
    const __m256i each =
        _mm256_shuffle_epi8(states, _mm256_setr_epi8(0, 1, 4, 5, -1, -1, -1, -1, 8, 9, 12, 13, -1, -1, -1, -1,  //
                                                     -1, -1, -1, -1, 0, 1, 4, 5, -1, -1, -1, -1, 8, 9, 12, 13));
    const __m128i lowest = _mm_or_si128(_mm256_castsi256_si128(each), _mm256_extracti128_si256(each, 1));
    const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(k_word_shuffles.of[full]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words_ - 8), _mm_shuffle_epi8(lowest, shuffle));
    words_ -= __builtin_popcount(full);
    low_.take(of_low);
    high_.take(of_high);
  }

  FourStates low_;
  FourStates high_;
  std::uint16_t* words_;
};

}  // namespace

void encode_symbols_avx2(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count) {
  encode_streams<EightCoders>(entries, streams, stream_count);
}

namespace {

/// Eight numbers apart: what is above the raw bits is 2 or 3, or for numbers below 4 the number itself.
struct EightBuckets {
  __m256i raw_bits;  // how many
  __m256i buckets;
  __m256i rests;  // the raw bits themselves

  /// `numbers` below 2^31; `powers` have the same highest bits and are the same as floats of 24 bits.
  EightBuckets(__m256i numbers, __m256i powers) {
    // There is no vector of leading zeros: the exponent of a float says it, 1 or less of numbers below 4.
    const __m256i exponents = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(powers)), 23);
    raw_bits = _mm256_subs_epu16(exponents, _mm256_set1_epi32(127 + 1));
    buckets = _mm256_add_epi32(_mm256_add_epi32(raw_bits, raw_bits), _mm256_srlv_epi32(numbers, raw_bits));
    rests = _mm256_andnot_si256(_mm256_sllv_epi32(_mm256_set1_epi32(-1), raw_bits), numbers);
  }
};

bool is_any_above(__m256i numbers, int limit) {
  const __m256i above = _mm256_cmpgt_epi32(numbers, _mm256_set1_epi32(limit));
  return _mm256_testz_si256(above, above) == 0;
}

void append_four(__m256i bits, __m256i counts, BitString& string) {
  alignas(32) std::uint64_t bits_of[4];
  alignas(32) std::uint64_t counts_of[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(bits_of), bits);
  _mm256_store_si256(reinterpret_cast<__m256i*>(counts_of), counts);
  for (std::uint32_t i = 0; i < 4; ++i) string.append(bits_of[i], static_cast<std::uint32_t>(counts_of[i]));
}

/// Two numbers of a change, two changes, and where these have no more than 56 bits, four changes at once.
[[gnu::always_inline]] inline void append_rests(const EightBuckets& gaps, const EightBuckets& distances,
                                                BitString& string) {
  const __m256i bits = _mm256_add_epi32(gaps.raw_bits, distances.raw_bits);
  if (is_any_above(bits, 28)) {
    const auto append_half = [&](auto half_of) {
      const __m256i shifted = _mm256_sllv_epi64(half_of(distances.rests), half_of(gaps.raw_bits));
      append_four(_mm256_or_si256(half_of(gaps.rests), shifted), half_of(bits), string);
    };
    append_half([](__m256i numbers) { return _mm256_cvtepu32_epi64(_mm256_castsi256_si128(numbers)); });
    append_half([](__m256i numbers) { return _mm256_cvtepu32_epi64(_mm256_extracti128_si256(numbers, 1)); });
    return;
  }
  const __m256i rests = _mm256_or_si256(gaps.rests, _mm256_sllv_epi32(distances.rests, gaps.raw_bits));
  const __m256i low = _mm256_set1_epi64x(0xffffffff);
  const __m256i of_first = _mm256_and_si256(bits, low);
  const __m256i pairs =
      _mm256_or_si256(_mm256_and_si256(rests, low), _mm256_sllv_epi64(_mm256_srli_epi64(rests, 32), of_first));
  const __m256i pair_bits = _mm256_add_epi64(of_first, _mm256_srli_epi64(bits, 32));
  const __m256i four_bits = _mm256_add_epi64(pair_bits, _mm256_unpackhi_epi64(pair_bits, pair_bits));
  const __m256i fours =
      _mm256_or_si256(pairs, _mm256_sllv_epi64(_mm256_unpackhi_epi64(pairs, pairs), pair_bits));  // every other one
  const auto first_bits = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm256_castsi256_si128(four_bits)));
  const auto second_bits = static_cast<std::uint32_t>(_mm_cvtsi128_si32(_mm256_extracti128_si256(four_bits, 1)));
  if (first_bits > 56 || second_bits > 56) return append_four(pairs, pair_bits, string);
  string.append(static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_castsi256_si128(fours))), first_bits);
  string.append(static_cast<std::uint64_t>(_mm_cvtsi128_si64(_mm256_extracti128_si256(fours, 1))), second_bits);
}

// Inline, as GCC would not have it for two callers: the string stays in registers.
template <class T>
[[gnu::always_inline]] inline void split_eight(const std::uint32_t* gaps, const T* steps, std::uint8_t* gap_symbols,
                                               std::uint8_t* step_symbols, BitString& string) {
  const __m256i gap = load_eight(gaps);
  const __m256i step = load_eight(steps);
  const __m256i one = _mm256_set1_epi32(1);
  const __m256i distance = _mm256_srli_epi32(_mm256_sub_epi32(step, one), 1);  // less 1
  // Without the bit below the highest, a number of more than 24 bits is not rounded up to the next power of two.
  const EightBuckets of_gaps(gap, gap);
  const EightBuckets of_distances(
      distance, sizeof(T) < 4 ? distance : _mm256_andnot_si256(_mm256_srli_epi32(distance, 1), distance));
  const __m256i sign = _mm256_and_si256(step, one);
  const __m256i step_symbol = _mm256_or_si256(_mm256_add_epi32(of_distances.buckets, of_distances.buckets), sign);
  // Packed within halves of the register: four of each, and the other four of each.
  const __m256i words = _mm256_packus_epi32(of_gaps.buckets, step_symbol);
  const __m256i bytes = _mm256_packus_epi16(words, words);
  const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(gap_symbols), both);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(step_symbols), _mm_unpackhi_epi64(both, both));
  append_rests(of_gaps, of_distances, string);
}

template <class T>
std::uint64_t split(const std::uint32_t* gaps, const T* steps, std::uint32_t changes, std::uint8_t* gap_symbols,
                    std::uint8_t* step_symbols, std::uint8_t* raw) {
  BitString string{raw};
  std::uint32_t i = 0;
  for (; changes - i >= 8; i += 8) split_eight(gaps + i, steps + i, gap_symbols + i, step_symbols + i, string);
  if (i == changes) return string.size_bits();
  // What is not there has no raw bits.
  const std::uint32_t left = changes - i;
  std::uint32_t last_gaps[8] = {};
  T last_steps[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  std::uint8_t last_symbols[2][8];
  __builtin_memcpy(last_gaps, gaps + i, left * sizeof(std::uint32_t));
  __builtin_memcpy(last_steps, steps + i, left * sizeof(T));
  split_eight(last_gaps, last_steps, last_symbols[0], last_symbols[1], string);
  __builtin_memcpy(gap_symbols + i, last_symbols[0], left);
  __builtin_memcpy(step_symbols + i, last_symbols[1], left);
  return string.size_bits();
}

}  // namespace

std::uint64_t split_raw_bits_avx2(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                  std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                  std::uint8_t* raw) {
  return with_narrow_width(width_bytes, [&]<class T>(T) {
    return split(gaps, static_cast<const T*>(steps), changes, gap_symbols, step_symbols, raw);
  });
}

}  // namespace wdelta
