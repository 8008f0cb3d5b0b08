// SPDX-License-Identifier: Apache-2.0
#include "engine/coding_avx512.hpp"

#include "engine/coding_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_word = 64;             // elements per mask
constexpr std::uint32_t k_words_at_a_time = 64;  // whose masks fit into the first-level cache

/// The members of each class in a few words: as masks, and how many lie before each word. The number of classes is
/// known when this is compiled, so that what belongs to a class stays in registers.
template <std::uint32_t class_count>
struct Stretch {
  alignas(64) std::uint64_t masks[class_count][k_words_at_a_time];
  alignas(64) std::uint16_t before[class_count][k_words_at_a_time];
  std::uint16_t members[class_count] = {};  // before the words that are counted next; 65,536 is 0

  /// Counts `words` words from `classes` on. Masks are all written before any is read: one that is read as part of a
  /// vector right after it was written alone waits for the store.
  void count(const std::uint8_t* classes, std::uint32_t words) {
    for (std::uint32_t word = 0; word < words; ++word) {
      const __m512i of_word = _mm512_loadu_si512(classes + word * k_word);
#pragma GCC unroll 16
      for (std::uint32_t k = 0; k < class_count; ++k) {
        masks[k][word] = _mm512_cmpeq_epi8_mask(of_word, _mm512_set1_epi8(static_cast<char>(k)));
      }
    }
    for (std::uint32_t k = 0; k < class_count; ++k) {
      for (std::uint32_t word = words; word < k_words_at_a_time; ++word) masks[k][word] = 0;
      __m128i carry = _mm_set1_epi16(static_cast<short>(members[k]));
      for (std::uint32_t word = 0; word < k_words_at_a_time; word += 8) {
        const __m512i counts = _mm512_popcnt_epi64(_mm512_load_si512(masks[k] + word));
        __m128i sums = _mm512_maskz_cvtepi64_epi16(0xff, counts);
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 2));
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 4));
        sums = _mm_add_epi16(sums, _mm_slli_si128(sums, 8));
        sums = _mm_add_epi16(sums, carry);
        // Sums up to each word, from the one before the first on.
        _mm_store_si128(reinterpret_cast<__m128i*>(before[k] + word), _mm_alignr_epi8(sums, carry, 14));
        carry = _mm_shuffle_epi8(sums, _mm_set1_epi16(0x0f0e));
      }
      members[k] = static_cast<std::uint16_t>(_mm_extract_epi16(carry, 7));
      // No rank is found in a word that is not there.
      for (std::uint32_t word = words; word < k_words_at_a_time; ++word) before[k][word] = 0xffff;
    }
  }
};

std::uint32_t words_from(std::uint32_t first, std::uint32_t count) {
  const std::uint32_t left = (count - first + k_word - 1) / k_word;
  return left < k_words_at_a_time ? left : k_words_at_a_time;
}

// With the masks and counts of a few words at hand a change needs no more than two look-ups, whatever word it is in: no
// branch depends on where the changes lie.
template <std::uint32_t class_count>
void rank_changes(const std::uint8_t* classes, std::uint32_t count, const std::uint16_t* positions,
                  std::uint32_t changes, std::uint16_t* ranks) {
  Stretch<class_count> stretch;
  std::uint32_t change = 0;
  for (std::uint32_t first = 0; first < count && change < changes; first += k_words_at_a_time * k_word) {
    const std::uint32_t words = words_from(first, count);
    stretch.count(classes + first, words);
    const std::uint32_t end = first + words * k_word;
    for (; change < changes && positions[change] < end; ++change) {
      const std::uint32_t position = positions[change];
      const std::uint32_t word = (position - first) / k_word;
      const std::uint8_t k = classes[position];
      const std::uint64_t mask = _bzhi_u64(stretch.masks[k][word], position % k_word);
      ranks[change] =
          static_cast<std::uint16_t>(stretch.before[k][word] + static_cast<std::uint32_t>(__builtin_popcountll(mask)));
    }
  }
}

template <std::uint32_t most_classes>
bool find_ranks(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions) {
  Stretch<most_classes> stretch;
  std::uint32_t next[most_classes];
  std::uint32_t end[most_classes];
  std::uint32_t before[most_classes] = {};
  std::uint32_t changes = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    next[k] = changes;
    end[k] = changes += class_changes[k];
  }
  std::uint32_t found = 0;
  for (std::uint32_t first = 0; first < count && found < changes; first += k_words_at_a_time * k_word) {
    stretch.count(classes + first, words_from(first, count));
    for (std::uint32_t k = 0; k < class_count; ++k) {
      before[k] += static_cast<std::uint16_t>(stretch.members[k] - before[k]);
      const __m512i low = _mm512_load_si512(stretch.before[k]);
      const __m512i high = _mm512_load_si512(stretch.before[k] + 32);
      std::uint32_t change = next[k];
      for (; change < end[k] && ranks[change] < before[k]; ++change) {
        // The last word that has no more members before it than the rank says.
        const __m512i rank = _mm512_set1_epi16(static_cast<short>(ranks[change]));
        const auto in_low = static_cast<std::uint32_t>(__builtin_popcount(_mm512_cmple_epu16_mask(low, rank)));
        const auto in_high = static_cast<std::uint32_t>(__builtin_popcount(_mm512_cmple_epu16_mask(high, rank)));
        const std::uint32_t word = in_low + in_high - 1;
        const std::uint64_t bit = _pdep_u64(1ULL << (ranks[change] - stretch.before[k][word]), stretch.masks[k][word]);
        positions[change] = static_cast<std::uint16_t>(first + word * k_word + _tzcnt_u64(bit));
      }
      found += change - next[k];
      next[k] = change;
    }
  }
  return found == changes;
}

}  // namespace

void rank_changes_avx512(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                         const std::uint16_t* positions, std::uint32_t changes, std::uint16_t* ranks) {
  if (class_count <= 4) return rank_changes<4>(classes, count, positions, changes, ranks);
  if (class_count <= 6) return rank_changes<6>(classes, count, positions, changes, ranks);
  if (class_count <= 8) return rank_changes<8>(classes, count, positions, changes, ranks);
  if (class_count <= 12) return rank_changes<12>(classes, count, positions, changes, ranks);
  rank_changes<16>(classes, count, positions, changes, ranks);
}

bool find_ranks_avx512(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                       const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions) {
  if (class_count <= 4) return find_ranks<4>(classes, count, class_count, class_changes, ranks, positions);
  if (class_count <= 6) return find_ranks<6>(classes, count, class_count, class_changes, ranks, positions);
  if (class_count <= 8) return find_ranks<8>(classes, count, class_count, class_changes, ranks, positions);
  if (class_count <= 12) return find_ranks<12>(classes, count, class_count, class_changes, ranks, positions);
  return find_ranks<16>(classes, count, class_count, class_changes, ranks, positions);
}

namespace {

constexpr std::uint32_t k_lanes = 8;

/// Shuffles that bring the words (of eight, 2 bytes each) whose bit is set behind one another, to the end.
struct WordShuffles {
  alignas(16) std::uint8_t of[256][16];
};
constexpr WordShuffles k_word_shuffles = [] {
  WordShuffles shuffles{};
  for (std::uint32_t mask = 0; mask < 256; ++mask) {
    std::uint32_t to = 16;
    for (std::uint32_t word = 8; word-- > 0;) {
      if ((mask >> word & 1) == 0) continue;
      shuffles.of[mask][--to] = static_cast<std::uint8_t>(2 * word + 1);
      shuffles.of[mask][--to] = static_cast<std::uint8_t>(2 * word);
    }
  }
  return shuffles;
}();

/// Gives a symbol to each of eight coders. No branch depends on which of them are full: eight words are written in any
/// case, in front of the last.
__m512i encode_eight(const std::uint64_t* of_lanes, __m512i states, std::uint16_t*& words) {
  const __m512i entries = _mm512_load_si512(of_lanes);
  const __m512i frequency = _mm512_and_si512(_mm512_srli_epi64(entries, 32), _mm512_set1_epi64(0x7ff));
  const __m512i begin = _mm512_and_si512(_mm512_srli_epi64(entries, 43), _mm512_set1_epi64(0x3ff));
  const __m512i others = _mm512_sub_epi64(_mm512_set1_epi64(1024), frequency);
  const __mmask8 full = _mm512_cmpge_epu64_mask(states, _mm512_slli_epi64(frequency, 21));
  const __m128i shuffle = _mm_load_si128(reinterpret_cast<const __m128i*>(k_word_shuffles.of[full]));
  const __m128i lowest = _mm512_maskz_cvtepi64_epi16(0xff, states);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(words - 8), _mm_shuffle_epi8(lowest, shuffle));
  words -= __builtin_popcount(full);
  states = _mm512_mask_srli_epi64(states, full, states, 16);
  const __m512i product = _mm512_maskz_mul_epu32(0xff, states, entries);
  const __m512i quotient = _mm512_maskz_srlv_epi64(0xff, product, _mm512_srli_epi64(entries, 58));
  return _mm512_add_epi64(_mm512_add_epi64(states, begin), _mm512_maskz_mul_epu32(0xff, quotient, others));
}

}  // namespace

std::uint16_t* encode_symbols_avx512(const std::uint64_t* entries, const std::uint16_t* gaps,
                                     const std::uint16_t* steps, std::uint32_t changes, std::uint32_t lanes,
                                     std::uint32_t* states, std::uint16_t* words_end) {
  if (lanes != k_lanes) return encode_symbols_scalar(entries, gaps, steps, changes, lanes, states, words_end);
  const std::uint32_t whole_rounds = changes / k_lanes * k_lanes;
  std::uint16_t* words = encode_symbols_scalar(entries, gaps + whole_rounds, steps + whole_rounds,
                                               changes - whole_rounds, lanes, states, words_end);
  __m512i lane_states = _mm512_maskz_cvtepu32_epi64(0xff, _mm256_loadu_si256(reinterpret_cast<__m256i*>(states)));
  // What a round needs is fetched rounds before, one entry after the other, which is faster than gathering them; the
  // last first, as they are used: what was written alone right before it is read in a vector is waited for.
  constexpr std::uint32_t k_fetched = 256;
  alignas(64) std::uint64_t of_gaps[k_fetched];
  alignas(64) std::uint64_t of_steps[k_fetched];
  for (std::uint32_t end = whole_rounds; end > 0;) {
    const std::uint32_t begin = end > k_fetched ? end - k_fetched : 0;
    for (std::uint32_t i = end - begin; i-- > 0;) {
      of_gaps[i] = entries[gaps[begin + i]];
      of_steps[i] = entries[steps[begin + i]];
    }
    for (std::uint32_t i = end - begin; i > 0;) {
      i -= k_lanes;
      lane_states = encode_eight(of_steps + i, lane_states, words);
      lane_states = encode_eight(of_gaps + i, lane_states, words);
    }
    end = begin;
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(states), _mm512_maskz_cvtepi64_epi32(0xff, lane_states));
  return words;
}

}  // namespace wdelta
