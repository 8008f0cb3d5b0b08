// SPDX-License-Identifier: Apache-2.0
#include "engine/coding_avx512.hpp"

#include "engine/bit_string.hpp"
#include "engine/encode_streams.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/load_some_avx512.hpp"
#include "engine/word_shuffles.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// Calls visit(first, which of 64 are there) for all changes.
template <class Visit>
void each_sixty_four(std::uint32_t changes, Visit visit) {
  std::uint32_t first = 0;
  for (; changes - first >= 64; first += 64) visit(first, ~0ULL);
  if (first < changes) visit(first, _bzhi_u64(~0ULL, changes - first));
}

/// Which of up to 64 changes are of a class.
std::uint64_t of_class(const std::uint8_t* change_classes, std::uint64_t there, __m512i k) {
  return _mm512_mask_cmpeq_epi8_mask(there, _mm512_maskz_loadu_epi8(there, change_classes), k);
}

// store_some(): of up to 64 numbers those that `which` says, `count` of them, and up to 64 bytes of rubbish behind.

void store_some(const std::uint8_t* numbers, std::uint64_t there, __m512i which, std::uint32_t, std::uint8_t* some) {
  const __m512i all = _mm512_maskz_loadu_epi8(there, numbers);
  _mm512_storeu_si512(some, _mm512_maskz_permutexvar_epi8(~0ULL, which, all));
}

void store_some(const std::uint16_t* numbers, std::uint64_t there, __m512i which, std::uint32_t count,
                std::uint16_t* some) {
  const __m512i low = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there), numbers);
  const __m512i high = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(there >> 32), numbers + 32);
  const __m512i first = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xf, which, 0));
  const __m512i found = _mm512_permutex2var_epi16(low, first, high);
  if (count <= 16) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(some), _mm512_castsi512_si256(found));
  _mm512_storeu_si512(some, found);
  if (count <= 32) return;
  const __m512i others = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xf, which, 1));
  _mm512_storeu_si512(some + 32, _mm512_permutex2var_epi16(low, others, high));
}

void store_some(const std::uint32_t* numbers, std::uint64_t, __m512i which, std::uint32_t count, std::uint32_t* some) {
  alignas(64) std::uint8_t indices[64];
  _mm512_store_si512(indices, which);
  for (std::uint32_t i = 0; i < count; ++i) some[i] = numbers[indices[i]];
}

/// Ranks in a class to how many members lie between them, from the last on: each needs the one before it.
void ranks_to_gaps(std::uint16_t* ranks, std::uint32_t count) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i before_all = _mm512_set1_epi16(-1);
  for (std::uint32_t i = (count + 31) / 32 * 32; i > 0;) {
    i -= 32;
    const __mmask32 there = _bzhi_u32(~0U, count - i < 32 ? count - i : 32);
    const __m512i before = _mm512_mask_loadu_epi16(before_all, i == 0 ? there & ~1U : there, ranks + i - 1);
    const __m512i rank = _mm512_maskz_loadu_epi16(there, ranks + i);
    _mm512_mask_storeu_epi16(ranks + i, there, _mm512_sub_epi16(_mm512_sub_epi16(rank, before), one));
  }
}

// Once for each class: that many comparisons take less than to wait, change by change, for where the next of its class
// goes.
template <class T>
void order(const ChangesInOrder changes, const ChangesByClass ordered) {
  const __m512i lanes = _mm512_load_si512(k_counting.bytes);
  std::uint16_t* gaps = ordered.gaps;
  auto* steps = static_cast<T*>(ordered.steps);
  for (std::uint32_t k = 0; k < changes.class_count; ++k) {
    const __m512i wanted = _mm512_set1_epi8(static_cast<char>(k));
    std::uint32_t found = 0;
    each_sixty_four(changes.count, [&](std::uint32_t first, std::uint64_t there) {
      const std::uint64_t mask = of_class(changes.classes + first, there, wanted);
      const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
      const __m512i which = _mm512_maskz_compress_epi8(mask, lanes);
      store_some(changes.ranks + first, there, which, count, gaps + found);
      store_some(static_cast<const T*>(changes.steps) + first, there, which, count, steps + found);
      found += count;
    });
    ordered.class_changes[k] = found;
    ordered.rank_ends[k] = found == 0 ? 0 : gaps[found - 1] + 1U;
    ranks_to_gaps(gaps, found);
    gaps += found;
    steps += found;
  }
}

}  // namespace

void order_by_class_avx512(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered) {
  with_narrow_width(width_bytes, [&]<class T>(T) { order<T>(*changes, *ordered); });
}

void order_bytes_by_class_avx512(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                                 const std::uint8_t* bytes, std::uint8_t* ordered) {
  for (std::uint32_t k = 0; k < class_count; ++k) {
    const __m512i wanted = _mm512_set1_epi8(static_cast<char>(k));
    each_sixty_four(changes, [&](std::uint32_t first, std::uint64_t there) {
      const std::uint64_t mask = of_class(change_classes + first, there, wanted);
      const __m512i some = _mm512_maskz_loadu_epi8(there, bytes + first);
      _mm512_storeu_si512(ordered, _mm512_maskz_compress_epi8(mask, some));
      ordered += __builtin_popcountll(mask);
    });
  }
}

// By the bits of 64 symbols at a time: counting one after the other would wait for what was just written whenever a
// symbol comes again.
void count_symbols_avx512(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                          std::uint32_t* counts) {
  each_sixty_four(count, [&](std::uint32_t first, std::uint64_t there) {
    const __m512i some = _mm512_maskz_loadu_epi8(there, symbols + first);
    const auto with_bit = [&](std::uint32_t bit) -> std::uint64_t {
      return _mm512_test_epi8_mask(some, _mm512_set1_epi8(static_cast<char>(1U << bit)));
    };
    const std::uint64_t odd = with_bit(0);
    const std::uint64_t twos = with_bit(1);
    const std::uint64_t fours = with_bit(2);
    const std::uint64_t with_low_bits[4] = {~twos & ~odd, ~twos & odd, twos & ~odd, twos & odd};
    std::uint64_t left = there;
    for (std::uint32_t eight = 0; left != 0 && eight + 8 <= symbol_count; eight += 8) {
      const std::uint64_t here =
          _mm512_mask_cmplt_epu8_mask(left, some, _mm512_set1_epi8(static_cast<char>(eight + 8)));
      left &= ~here;
      if (here == 0) continue;
      for (std::uint32_t i = 0; i < 8; ++i) {
        const std::uint64_t with_bits = here & (i < 4 ? ~fours : fours) & with_low_bits[i % 4];
        counts[eight + i] += static_cast<std::uint32_t>(__builtin_popcountll(with_bits));
      }
    }
    for (; left != 0; left = _blsr_u64(left)) ++counts[symbols[first + _tzcnt_u64(left)]];
  });
}

namespace {

/// Eight coders. To be kept in registers: what is written is written to words alone.
struct EightCoders {
  __m512i states;
  std::uint16_t* words;

  explicit EightCoders(const SymbolStream& stream)
      : states(_mm512_maskz_cvtepu32_epi64(0xff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(stream.states)))),
        words(stream.words) {}
  void finish(SymbolStream& stream) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(stream.states), _mm512_maskz_cvtepi64_epi32(0xff, states));
    stream.words = words;
  }

  void encode_round(const EntryFetcher& fetched, std::uint32_t first) {
    encode_eight(fetched.steps + first);
    encode_eight(fetched.gaps + first);
  }

 private:
  /// Gives a symbol to each. No branch depends on which of them are full: eight words are written in any case, in front
  /// of the last.
  void encode_eight(const std::uint64_t* of_lanes) {
    const __m512i entries = _mm512_load_si512(of_lanes);
    const __m512i begin = _mm512_and_si512(entries, _mm512_set1_epi64(0x3ff));
    const __m512i others = _mm512_srli_epi64(entries, 53);
    // Where a state is not below the frequency times 2^21, others times 2^21 take it to 2^31.
    const __m512i highest = _mm512_and_si512(_mm512_srli_epi64(entries, 32), _mm512_set1_epi64(0x3ff << 21));
    const __m512i reached = _mm512_add_epi64(states, highest);
    const __mmask8 full = _mm512_test_epi64_mask(reached, _mm512_set1_epi64(1LL << 31));
    const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(k_word_shuffles.of[full]));
    const __m128i lowest = _mm512_maskz_cvtepi64_epi16(0xff, states);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 8), _mm_shuffle_epi8(lowest, shuffle));
    words -= __builtin_popcount(full);
    const __m512i from =
        _mm512_maskz_srlv_epi64(0xff, states, _mm512_and_si512(_mm512_srli_epi64(reached, 27), _mm512_set1_epi64(16)));
    const __m512i quotient = _mm512_madd52hi_epu64(_mm512_setzero_si512(), _mm512_add_epi64(from, from), entries);
    states = _mm512_madd52lo_epu64(_mm512_add_epi64(from, begin), quotient, others);
  }
};

}  // namespace

void encode_symbols_avx512(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count) {
  encode_streams<EightCoders>(entries, streams, stream_count);
}

namespace {

/// Of each number: those below 4 have none, others all but the two highest.
__m512i raw_bits_of(__m512i numbers) {
  const __m512i zeros = _mm512_lzcnt_epi32(_mm512_or_si512(numbers, _mm512_set1_epi32(3)));
  return _mm512_sub_epi32(_mm512_set1_epi32(30), zeros);
}

/// What is above the raw bits is 2 or 3, or for numbers below 4 the number itself.
__m512i buckets_of(__m512i numbers, __m512i raw_bits) {
  return _mm512_add_epi32(_mm512_add_epi32(raw_bits, raw_bits), _mm512_maskz_srlv_epi32(0xffff, numbers, raw_bits));
}

/// The raw bits themselves.
__m512i rests_of(__m512i numbers, __m512i raw_bits) {
  const __m512i above = _mm512_maskz_sllv_epi32(0xffff, _mm512_set1_epi32(-1), raw_bits);
  return _mm512_andnot_si512(above, numbers);
}

template <class T>
std::uint64_t split(const std::uint32_t* gaps, const T* steps, std::uint32_t changes, std::uint8_t* gap_symbols,
                    std::uint8_t* step_symbols, std::uint8_t* raw) {
  BitString string{raw};
  for (std::uint32_t i = 0; i < changes; i += 16) {
    const auto there = static_cast<__mmask16>(_bzhi_u32(0xffff, changes - i < 16 ? changes - i : 16));
    const __m512i gap = load_some(there, gaps + i);
    // A step of 1 for what is not there has no raw bits.
    const __m512i step = _mm512_mask_mov_epi32(_mm512_set1_epi32(1), there, load_some(there, steps + i));
    const __m512i distance = _mm512_srli_epi32(_mm512_sub_epi32(step, _mm512_set1_epi32(1)), 1);  // less 1
    const __m512i gap_bits = raw_bits_of(gap);
    const __m512i distance_bits = raw_bits_of(distance);
    const __m512i sign = _mm512_and_si512(step, _mm512_set1_epi32(1));
    const __m512i distance_bucket = buckets_of(distance, distance_bits);
    const __m512i step_symbol = _mm512_or_si512(_mm512_add_epi32(distance_bucket, distance_bucket), sign);
    _mm_mask_storeu_epi8(gap_symbols + i, there, _mm512_maskz_cvtepi32_epi8(0xffff, buckets_of(gap, gap_bits)));
    _mm_mask_storeu_epi8(step_symbols + i, there, _mm512_maskz_cvtepi32_epi8(0xffff, step_symbol));

    // Two numbers of a change, two changes, and where these have no more than 56 bits, four changes at once.
    const __m512i gap_rest = rests_of(gap, gap_bits);
    const __m512i distance_rest = rests_of(distance, distance_bits);
    const __m512i bits = _mm512_add_epi32(gap_bits, distance_bits);
    alignas(64) std::uint64_t rests[8];
    alignas(64) std::uint64_t counts[8];
    if (_mm512_cmpgt_epu32_mask(bits, _mm512_set1_epi32(28)) != 0) {
      for (std::uint32_t half = 0; half < 2; ++half) {
        const auto of_half = [&](__m512i numbers) {
          return _mm512_maskz_cvtepu32_epi64(0xff, half == 0 ? _mm512_maskz_extracti64x4_epi64(0xf, numbers, 0)
                                                             : _mm512_maskz_extracti64x4_epi64(0xf, numbers, 1));
        };
        _mm512_store_si512(rests,
                           _mm512_or_si512(of_half(gap_rest),
                                           _mm512_maskz_sllv_epi64(0xff, of_half(distance_rest), of_half(gap_bits))));
        _mm512_store_si512(counts, of_half(bits));
        for (std::uint32_t k = 0; k < 8; ++k) string.append(rests[k], static_cast<std::uint32_t>(counts[k]));
      }
      continue;
    }
    const __m512i rest = _mm512_or_si512(gap_rest, _mm512_maskz_sllv_epi32(0xffff, distance_rest, gap_bits));
    const __m512i low = _mm512_set1_epi64(0xffffffff);
    const __m512i of_first = _mm512_and_si512(bits, low);
    __m512i pair = _mm512_or_si512(_mm512_and_si512(rest, low),
                                   _mm512_maskz_sllv_epi64(0xff, _mm512_srli_epi64(rest, 32), of_first));
    __m512i pair_bits = _mm512_add_epi64(of_first, _mm512_srli_epi64(bits, 32));
    const __m512i other_bits = _mm512_maskz_permutex_epi64(0xff, pair_bits, 0xb1);
    const __m512i four_bits = _mm512_add_epi64(pair_bits, other_bits);
    if (_mm512_cmpgt_epu64_mask(four_bits, _mm512_set1_epi64(56)) == 0) {
      const __m512i others = _mm512_maskz_permutex_epi64(0xff, pair, 0xb1);
      pair = _mm512_or_si512(pair, _mm512_maskz_sllv_epi64(0xff, others, pair_bits));
      _mm512_store_si512(rests, pair);
      _mm512_store_si512(counts, four_bits);
      for (std::uint32_t k = 0; k < 8; k += 2) string.append(rests[k], static_cast<std::uint32_t>(counts[k]));
    } else {
      _mm512_store_si512(rests, pair);
      _mm512_store_si512(counts, pair_bits);
      for (std::uint32_t k = 0; k < 8; ++k) string.append(rests[k], static_cast<std::uint32_t>(counts[k]));
    }
  }
  return string.size_bits();
}

}  // namespace

std::uint64_t split_raw_bits_avx512(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                    std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                    std::uint8_t* raw) {
  return with_narrow_width(width_bytes, [&]<class T>(T) {
    return split(gaps, static_cast<const T*>(steps), changes, gap_symbols, step_symbols, raw);
  });
}

}  // namespace wdelta
