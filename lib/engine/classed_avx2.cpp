// SPDX-License-Identifier: Apache-2.0
// ClassedKernels with AVX2, BMI1 and BMI2. Stretches of 4,096 elements: the members of each class as masks of 64
// elements, how many lie before each mask, and then one change after the other. No branch depends on where the changes
// lie, but for how many there are of a class.
#include "engine/class_marks_avx2.hpp"
#include "engine/kernels.hpp"
#include "engine/moved_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// What a bucket begins with and how many raw bits follow.
struct Buckets {
  std::uint32_t begin[64];
  std::uint8_t raw_bits[64];
};
constexpr Buckets k_buckets = [] {
  Buckets buckets{};
  for (std::uint32_t bucket = 0; bucket < 64; ++bucket) {
    const std::uint32_t bits = bucket < 4 ? 0 : bucket / 2 - 1;
    buckets.raw_bits[bucket] = static_cast<std::uint8_t>(bits);
    buckets.begin[bucket] = bucket < 4 ? bucket : (2 + (bucket & 1)) << bits;
  }
  return buckets;
}();

template <class T>
std::uint32_t join_raw_bits(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                            std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                            std::uint32_t* ranks, void* moves, std::uint64_t* raw_bits) {
  std::uint64_t at = *raw_bits;
  std::uint32_t i = 0;
  std::uint64_t last = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    std::uint64_t next = 0;
    for (const std::uint32_t end = i + class_changes[k]; i < end; ++i) {
      const std::uint32_t gap = gap_symbols[i];
      const std::uint32_t step = step_symbols[i];
      const std::uint32_t gap_bits = k_buckets.raw_bits[gap];
      const std::uint32_t distance_bits = k_buckets.raw_bits[step / 2];
      const std::uint64_t bits = load<std::uint64_t>(raw + at / 8, 0) >> (at % 8);
      const std::uint32_t distance =
          1 + k_buckets.begin[step / 2] + static_cast<std::uint32_t>(_bzhi_u64(bits >> gap_bits, distance_bits));
      const std::uint32_t negative = 0 - (step & 1);
      store<T>(moves, i, static_cast<T>((distance ^ negative) - negative));
      at += gap_bits + distance_bits;
      next += k_buckets.begin[gap] + _bzhi_u64(bits, gap_bits);
      store<std::uint32_t>(ranks, i, static_cast<std::uint32_t>(next++));
    }
    last = next > last ? next : last;
  }
  *raw_bits = at;
  return last > 0xffffffff ? 0xffffffff : static_cast<std::uint32_t>(last);
}

/// The last word that has no more members before it than the rank says. All words are looked at at once: by halves,
/// each step would wait for the one before (make bench, Zen 5, 1 and 2.8 % changed: 9.7 and 5.3 GB/s, and 10.9 and 6.4
/// so).
std::uint32_t last_word_before(const std::uint16_t* members_before, std::uint32_t rank) {
  static_assert(k_words == 4 * 16);
  const __m256i limit = _mm256_set1_epi16(static_cast<short>(rank));
  const auto not_beyond = [&](std::uint32_t i) {
    const __m256i before = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(members_before) + i);
    return _mm256_cmpeq_epi16(_mm256_min_epu16(before, limit), before);
  };
  const auto first = static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(not_beyond(0), not_beyond(1))));
  const auto second =
      static_cast<std::uint32_t>(_mm256_movemask_epi8(_mm256_packs_epi16(not_beyond(2), not_beyond(3))));
  // The lowest bit stays that of the first word, which is never beyond.
  return static_cast<std::uint32_t>(__builtin_popcountll((first | std::uint64_t{second} << 32) >> 1));
}

template <class T, Order order>
bool apply_classed(void* elements, std::uint32_t count, const ClassedChanges* changes) {
  ClassMarks classes;
  MovedElements<T, k_stretch> moved;
  std::uint32_t next[16];
  std::uint32_t end[16];
  std::uint32_t members_before[16];  // of the strip, before the block
  std::uint32_t waiting = 0;
  StripProgress* const progress = changes->progress;
  for (std::uint32_t k = 0, begin = 0; k <= changes->bound_count; ++k) {
    next[k] = begin + progress->changes[k];
    end[k] = begin += changes->class_changes[k];
    members_before[k] = progress->members[k];
    waiting += end[k] - next[k];
  }
  char* const bytes = static_cast<char*>(elements);
  for (std::uint32_t first = 0; first < count && waiting > 0; first += k_stretch) {
    const std::uint32_t length = count - first < k_stretch ? count - first : k_stretch;
    classes.mark_stretch<T, order>(bytes + first * sizeof(T), length, changes->bounds, changes->bound_count);
    moved.count = 0;
    for (std::uint32_t k = 0; k <= changes->bound_count; ++k) {
      std::uint32_t change = next[k];
      if (change == end[k]) continue;
      classes.count(k);
      const std::uint16_t* const before = classes.before[k];
      for (; change < end[k]; ++change) {
        const std::uint32_t rank = load<std::uint32_t>(changes->ranks, change) - members_before[k];
        if (rank >= classes.members[k]) break;
        const std::uint32_t word = last_word_before(before, rank);
        const std::uint64_t bit = _pdep_u64(1ULL << (rank - before[word]), classes.masks[k][word]);
        moved.position[moved.count] = static_cast<std::uint16_t>(first + word * k_word + _tzcnt_u64(bit));
        moved.move[moved.count++] = load<T>(changes->moves, change);
      }
      next[k] = change;
    }
    waiting -= moved.count;
    moved.template apply<order>(bytes, changes->flips, [&](std::uint32_t i) { return moved.position[i]; });
  }
  if (changes->blocks_left == 1) return waiting == 0;
  for (std::uint32_t k = 0, begin = 0; k <= changes->bound_count; ++k) {
    progress->changes[k] = next[k] - begin;
    begin = end[k];
    if (next[k] < end[k]) progress->members[k] = members_before[k] + classes.members[k];
  }
  return true;
}

template <class T, Order order>
constexpr ClassedKernels k_classed = {join_raw_bits<T>, apply_classed<T, order>, {}};

}  // namespace

const ClassedKernels k_classed_avx2[3][2] = {
    {k_classed<std::uint8_t, Order::plain>, k_classed<std::uint8_t, Order::sign_magnitude>},
    {k_classed<std::uint16_t, Order::plain>, k_classed<std::uint16_t, Order::sign_magnitude>},
    {k_classed<std::uint32_t, Order::plain>, k_classed<std::uint32_t, Order::sign_magnitude>},
};

}  // namespace wdelta
