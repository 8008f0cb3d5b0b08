// SPDX-License-Identifier: Apache-2.0
// ClassedKernels with AVX2, BMI1 and BMI2. Stretches of 4,096 elements: the members of each class as masks of 64
// elements, how many lie before each mask, and then one change after the other. No branch depends on where the changes
// lie, but for how many there are of a class.
#include "engine/class_columns_avx2.hpp"
#include "engine/class_map_avx2.hpp"
#include "engine/kernels.hpp"
#include "engine/moved_elements.hpp"
#include "engine/waiting_changes.hpp"

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

/// The changes of a stretch, of all classes one behind the other.
template <class T>
class Stretch {
 public:
  MovedElements<T, k_stretch> moved;  // positions: of the element in the block, once it was found

  /// Takes those changes of a class, or of a range of them at `place`, that lie in the stretch, which has `members` of
  /// it. Eight at a time: how many there are cannot be foretold, but mostly in how many steps.
  void take(Waiting<T>& waiting, std::uint32_t i, std::uint32_t members) {
    const __m256i before_stretch = _mm256_set1_epi32(static_cast<int>(waiting.members[i]));
    const __m256i last = _mm256_set1_epi32(static_cast<int>(members) - 1);
    waiting.members[i] += members;
    if (members == 0) return;
    for (;;) {
      const std::uint32_t left = waiting.changes[i] < 8 ? waiting.changes[i] : 8;
      const __m256i ranks = _mm256_sub_epi32(load_ranks(waiting.ranks[i], left), before_stretch);
      const __m256i is_in = _mm256_cmpeq_epi32(_mm256_min_epu32(ranks, last), ranks);
      const auto in = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_in)));
      const auto taken = static_cast<std::uint32_t>(__builtin_popcount(_bzhi_u32(in, left)));
      const std::uint32_t at = moved.count;
      const __m256i in_order = _mm256_permute4x64_epi64(_mm256_packus_epi32(ranks, ranks), 0b11'01'10'00);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(rank_ + at), _mm256_castsi256_si128(in_order));
      store<std::uint64_t>(place_ + at, 0, waiting.place[i] * 0x0101010101010101);
      copy_moves(waiting.moves[i], left, moved.move + at);
      moved.count = at + taken;
      waiting.ranks[i] += taken;
      waiting.moves[i] += taken;
      waiting.changes[i] -= taken;
      if (taken < 8) return;
    }
  }

  /// Moves those taken, in a stretch that begins at `first`; `columns` by place.
  template <Order order>
  void move(char* elements, std::uint32_t first, const std::uint8_t* contexts, const ClassColumn* columns,
            const std::uint64_t* flips) {
    moved.template apply<order>(elements, flips, [&](std::uint32_t i) {
      const ClassColumn& column = columns[place_[i]];
      const ClassColumn::Found found = column.find(rank_[i]);
      const std::uint64_t members = column.contexts.mask(contexts + found.word * k_word);
      const auto in_word = static_cast<std::uint32_t>(_tzcnt_u64(_pdep_u64(1ULL << found.rank_in_word, members)));
      return first + found.word * k_word + in_word;
    });
  }

 private:
  static __m256i load_ranks(const std::uint32_t* ranks, std::uint32_t count) {
    if (count == 8) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(ranks));
    const __m256i there =
        _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(ranks), there);
  }
  static void copy_moves(const T* moves, std::uint32_t count, T* copy) {
    __builtin_memcpy(copy, moves, count * sizeof(T));
  }

  std::uint16_t rank_[k_stretch + 64];
  std::uint8_t place_[k_stretch + 64];
};

template <class T, Order order>
bool apply_classed(void* elements, std::uint32_t count, const ClassedChanges* changes) {
  const ClassTable table(changes->bounds, changes->bound_count);
  Waiting<T> waiting;
  waiting.begin(*changes, nullptr);
  CountedStretch counted;
  ClassColumn columns[k_classes];
  for (std::uint32_t k = 0; k < table.class_count(); ++k) columns[k].contexts = table.contexts()[k];
  Stretch<T> stretch;
  char* const bytes = static_cast<char*>(elements);
  for (std::uint32_t first = 0; first < count && waiting.count > 0; first += k_stretch) {
    const std::uint32_t length = count - first < k_stretch ? count - first : k_stretch;
    count_stretch<T, order>(bytes + first * sizeof(T), length, table, counted);
    list_columns(counted, table.class_count(), columns);
    stretch.moved.count = 0;
    for (std::uint32_t i = 0; i < waiting.count; ++i) stretch.take(waiting, i, columns[waiting.place[i]].members());
    waiting.close_ranks();
    stretch.template move<order>(bytes, first, counted.contexts, columns, changes->flips);
  }
  return waiting.finish(*changes);
}

// Stretch by stretch, each through all deltas.
template <class T, Order order>
std::uint32_t apply_chained(void* elements, std::uint32_t count, const ClassRanges* ranges,
                            const ChainedChanges* deltas, std::uint32_t delta_count, void* scratch) {
  ClassMap map(*ranges, scratch);
  Waiting<T> waiting[k_most_chained];
  for (std::uint32_t i = 0; i < delta_count; ++i) waiting[i].begin(deltas[i].changes, deltas[i].range_of_class);
  Stretch<T> stretch;
  char* const bytes = static_cast<char*>(elements);
  for (std::uint32_t first = 0; first < count; first += k_stretch) {
    const std::uint32_t length = count - first < k_stretch ? count - first : k_stretch;
    map.look_at<T, order>(bytes + first * sizeof(T), length);
    for (std::uint32_t i = 0; i < delta_count; ++i) {
      stretch.moved.count = 0;
      for (std::uint32_t k = 0; k < waiting[i].count; ++k) {
        stretch.take(waiting[i], k, map.columns()[waiting[i].place[k]].members());
      }
      waiting[i].close_ranks();
      stretch.template move<order>(bytes, first, map.contexts(), map.columns(), deltas[i].changes.flips);
      // Nobody asks for the classes of what the last one moves.
      if (i + 1 < delta_count && !map.follow<order>(stretch.moved, first)) {
        map.look_at<T, order>(bytes + first * sizeof(T), length);
      }
    }
  }
  return finish_all(waiting, deltas, delta_count);
}

template <class T, Order order>
constexpr ClassedKernels k_classed = {
    join_raw_bits<T>, apply_classed<T, order>, {sizeof(ClassMap::Places), apply_chained<T, order>}};

}  // namespace

const ClassedKernels k_classed_avx2[3][2] = {
    {k_classed<std::uint8_t, Order::plain>, k_classed<std::uint8_t, Order::sign_magnitude>},
    {k_classed<std::uint16_t, Order::plain>, k_classed<std::uint16_t, Order::sign_magnitude>},
    {k_classed<std::uint32_t, Order::plain>, k_classed<std::uint32_t, Order::sign_magnitude>},
};

}  // namespace wdelta
