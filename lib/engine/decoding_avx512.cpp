// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx512.hpp"

#include "engine/stretch_avx512.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

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

bool find_ranks_avx512(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                       const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions) {
  if (class_count <= 4) return find_ranks<4>(classes, count, class_count, class_changes, ranks, positions);
  if (class_count <= 6) return find_ranks<6>(classes, count, class_count, class_changes, ranks, positions);
  if (class_count <= 8) return find_ranks<8>(classes, count, class_count, class_changes, ranks, positions);
  if (class_count <= 12) return find_ranks<12>(classes, count, class_count, class_changes, ranks, positions);
  return find_ranks<16>(classes, count, class_count, class_changes, ranks, positions);
}

}  // namespace wdelta
