// SPDX-License-Identifier: Apache-2.0
#include "engine/coding_avx512.hpp"

#include "engine/coding_scalar.hpp"
#include "engine/entry_fetcher.hpp"
#include "engine/word_shuffles.hpp"

#include <immintrin.h>

namespace wdelta {
void order_by_class_avx512(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                           std::uint32_t* class_changes, std::uint16_t* order) {
  const __m512i places =
      _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40,
                      39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16,
                      15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  std::uint32_t to = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    const __m512i wanted = _mm512_set1_epi8(static_cast<char>(k));
    const std::uint32_t begin = to;
    for (std::uint32_t first = 0; first < changes; first += 64) {
      const std::uint64_t there = _bzhi_u64(~0ULL, changes - first < 64 ? changes - first : 64);
      const __m512i classes = _mm512_maskz_loadu_epi8(there, change_classes + first);
      const std::uint64_t mask = _mm512_mask_cmpeq_epi8_mask(there, classes, wanted);
      const __m512i found = _mm512_maskz_compress_epi8(mask, places);
      const __m512i start = _mm512_set1_epi16(static_cast<short>(first));
      const auto count = static_cast<std::uint32_t>(__builtin_popcountll(mask));
      const __m512i low = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xf, found, 0));
      _mm512_storeu_si512(order + to, _mm512_add_epi16(start, low));
      if (count > 32) {
        const __m512i high = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xf, found, 1));
        _mm512_storeu_si512(order + to + 32, _mm512_add_epi16(start, high));
      }
      to += count;
    }
    class_changes[k] = to - begin;
  }
}

// One comparison for every symbol up to the largest, of 64 at a time: counting one after the other would wait for what
// was just written whenever a symbol comes again.
void count_symbols_avx512(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                          std::uint32_t* counts) {
  for (std::uint32_t first = 0; first < count; first += 64) {
    const std::uint64_t there = _bzhi_u64(~0ULL, count - first < 64 ? count - first : 64);
    const __m512i some = _mm512_maskz_loadu_epi8(there, symbols + first);
    std::uint64_t left = there;
    for (std::uint32_t symbol = 0; symbol < symbol_count && left != 0; ++symbol) {
      const std::uint64_t mask = _mm512_mask_cmpeq_epi8_mask(left, some, _mm512_set1_epi8(static_cast<char>(symbol)));
      counts[symbol] += static_cast<std::uint32_t>(__builtin_popcountll(mask));
      left &= ~mask;
    }
  }
}

namespace {

constexpr std::uint32_t k_lanes = 8;

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

/// Fetches the entries of changes from the end on, as many as make whole rounds, once the rest is encoded.
EntryFetcher begin_stream(const std::uint64_t* entries, SymbolStream& stream) {
  EntryFetcher fetched(entries, stream.pairs);
  const std::uint32_t changes = fetched.end();
  fetched.fetch_from(changes / k_lanes * k_lanes);
  encode_entries_scalar(fetched.gaps, fetched.steps, changes % k_lanes, stream);
  return fetched;
}

std::uint32_t at_most(std::uint32_t changes) {
  return changes < EntryFetcher::k_at_once ? changes : EntryFetcher::k_at_once;
}

void encode_rest(EntryFetcher& fetched, SymbolStream& stream) {
  EightCoders coders(stream);
  while (fetched.end() > 0) {
    const std::uint32_t changes = at_most(fetched.end());
    fetched.fetch_from(fetched.end() - changes);
    for (std::uint32_t i = changes; i > 0;) coders.encode_round(fetched, i -= k_lanes);
  }
  coders.finish(stream);
}

/// What a state becomes takes four times as long as until the next instruction can start: as many rounds as both have.
void encode_side_by_side(EntryFetcher& fetched, SymbolStream& stream, EntryFetcher& other_fetched,
                         SymbolStream& other_stream) {
  EightCoders coders(stream);
  EightCoders others(other_stream);
  for (;;) {
    const std::uint32_t changes = at_most(fetched.end() < other_fetched.end() ? fetched.end() : other_fetched.end());
    if (changes == 0) break;
    fetched.fetch_from(fetched.end() - changes);
    other_fetched.fetch_from(other_fetched.end() - changes);
    for (std::uint32_t i = changes; i > 0;) {
      i -= k_lanes;
      coders.encode_round(fetched, i);
      others.encode_round(other_fetched, i);
    }
  }
  coders.finish(stream);
  others.finish(other_stream);
}

}  // namespace

void encode_symbols_avx512(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count) {
  if (stream_count == 2 && streams[0].lanes == k_lanes && streams[1].lanes == k_lanes) {
    EntryFetcher one = begin_stream(entries, streams[0]);
    EntryFetcher other = begin_stream(entries, streams[1]);
    encode_side_by_side(one, streams[0], other, streams[1]);
    encode_rest(one, streams[0]);
    encode_rest(other, streams[1]);
    return;
  }
  for (std::uint32_t i = 0; i < stream_count; ++i) {
    if (streams[i].lanes == k_lanes) {
      EntryFetcher fetched = begin_stream(entries, streams[i]);
      encode_rest(fetched, streams[i]);
    } else {
      encode_stream_scalar(entries, streams[i]);
    }
  }
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

/// Bits behind one another, lowest first.
struct BitString {
  std::uint8_t* bytes;
  std::uint64_t at = 0;  // whole bytes written
  std::uint64_t pending = 0;
  std::uint32_t pending_bits = 0;

  /// At most 56 bits; writes 8 bytes.
  void append(std::uint64_t bits, std::uint32_t count) {
    pending |= bits << pending_bits;
    pending_bits += count;
    __builtin_memcpy(bytes + at, &pending, sizeof(pending));
    at += pending_bits / 8;
    pending >>= pending_bits & 56;
    pending_bits &= 7;
  }
};

}  // namespace

std::uint64_t split_raw_bits_avx512(const std::uint16_t* gaps, const std::uint32_t* steps, std::uint32_t changes,
                                    std::uint8_t* gap_symbols, std::uint8_t* step_symbols, std::uint8_t* raw) {
  BitString string{raw};
  for (std::uint32_t i = 0; i < changes; i += 16) {
    const auto there = static_cast<__mmask16>(_bzhi_u32(0xffff, changes - i < 16 ? changes - i : 16));
    const __m512i gap = _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(there, gaps + i));
    // A step of 1 for what is not there has no raw bits.
    const __m512i step = _mm512_mask_loadu_epi32(_mm512_set1_epi32(1), there, steps + i);
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
  return 8 * string.at + string.pending_bits;
}

}  // namespace wdelta
