// SPDX-License-Identifier: Apache-2.0
// ClassedKernels with AVX-512: stretches of 8,192 elements (word_table_avx512.hpp), one change after the other only
// once all that vectors can do is done. No branch depends on where the changes lie, but for how many there are of a
// class.
#include "engine/class_map_avx512.hpp"
#include "engine/join_raw_bits_avx512.hpp"
#include "engine/kernels.hpp"
#include "engine/moved_elements.hpp"
#include "engine/waiting_changes.hpp"
#include "engine/word_table_avx512.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// Where the changes found lie, by the marks of the stretch.
class InMarks {
 public:
  ClassMarks marks;

  void put(std::uint32_t at, std::uint32_t k, __m512i word) {
    _mm512_storeu_si512(ends_at_ + at, of_row(k & 3, word));
    _mm512_storeu_si512(begins_at_ + at, of_row(k >> 2, word));
  }
  std::uint64_t members(std::uint32_t i) const { return marks.ends[ends_at_[i]] & marks.begins[begins_at_[i]]; }

 private:
  static __m512i of_row(std::uint32_t row, __m512i word) {
    return _mm512_or_si512(word, _mm512_set1_epi16(static_cast<short>(row * k_words)));
  }
  std::uint16_t ends_at_[k_moves_at_a_time + 32];
  std::uint16_t begins_at_[k_moves_at_a_time + 32];
};

/// The same by the members of each range of classes, one after the other.
class InRanges {
 public:
  const std::uint64_t* members_of_ranges = nullptr;

  void put(std::uint32_t at, std::uint32_t range, __m512i word) {
    _mm512_storeu_si512(at_ + at, _mm512_or_si512(word, _mm512_set1_epi16(static_cast<short>(range * k_words))));
  }
  std::uint64_t members(std::uint32_t i) const { return members_of_ranges[at_[i]]; }

 private:
  std::uint16_t at_[k_moves_at_a_time + 32];
};

/// The changes found in a stretch of elements, of all classes one behind the other.
template <class T, class Places>
struct Stretch {
  Places places;
  MovedElements<T, k_moves_at_a_time> moved;   // positions: of the first element in the word
  std::uint16_t rank[k_moves_at_a_time + 32];  // among the members in its word

  /// Moves the elements found so far, whose members stay as they are.
  template <Order order>
  void move(char* elements, const std::uint64_t* flips) {
    moved.template apply<order>(elements, flips, [this](std::uint32_t i) {
      const std::uint64_t bit = _pdep_u64(1ULL << rank[i], places.members(i));
      return moved.position[i] + static_cast<std::uint32_t>(_tzcnt_u64(bit));
    });
  }
};

template <class T>
void copy_moves(const T* moves, __mmask32 there, T* copy) {
  if constexpr (sizeof(T) == 1) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(copy), _mm256_maskz_loadu_epi8(there, moves));
  } else if constexpr (sizeof(T) == 2) {
    _mm512_storeu_si512(copy, _mm512_maskz_loadu_epi16(there, moves));
  } else {
    _mm512_storeu_si512(copy, _mm512_maskz_loadu_epi32(static_cast<__mmask16>(there), moves));
    _mm512_storeu_si512(copy + 16, _mm512_maskz_loadu_epi32(static_cast<__mmask16>(there >> 16), moves + 16));
  }
}

/// What lies beyond 16 bits lies beyond the stretch too.
__m512i ranks_in_stretch(const std::uint32_t* ranks, __mmask32 there, __m512i before_stretch) {
  const auto half = [&](std::uint32_t first) {
    const __m512i in_strip = _mm512_maskz_loadu_epi32(static_cast<__mmask16>(there >> first), ranks + first);
    return _mm512_maskz_cvtusepi32_epi16(0xffff, _mm512_sub_epi32(in_strip, before_stretch));
  };
  return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(half(0)), half(16), 1);
}

/// Finds those changes of a class that lie in the stretch, which begins at `first`. Calls make_room() when there is
/// none for 32 more.
template <class T, class Places, class MakeRoom>
void find_changes(Waiting<T>& waiting, std::uint32_t i, std::uint32_t first, const WordTable& table,
                  const Powers& powers, Stretch<T, Places>& stretch, MakeRoom make_room) {
  const __m512i before_stretch = _mm512_set1_epi32(static_cast<int>(waiting.members[i]));
  const __m512i all = _mm512_set1_epi16(static_cast<short>(table.members()));
  waiting.members[i] += table.members();
  const std::uint32_t* ranks = waiting.ranks[i];
  const T* moves = waiting.moves[i];
  std::uint32_t left = waiting.changes[i];
  for (;;) {
    const __mmask32 there = left >= 32 ? ~0U : _bzhi_u32(~0U, left);
    const __m512i rank = ranks_in_stretch(ranks, there, before_stretch);
    const __mmask32 here = _mm512_mask_cmplt_epu16_mask(there, rank, all);
    if (here == 0) break;
    if (stretch.moved.count > k_moves_at_a_time - 32) make_room();
    const WordTable::Found found = table.find(powers, rank);
    const std::uint32_t at = stretch.moved.count;
    _mm512_storeu_si512(stretch.rank + at, found.rank);
    stretch.places.put(at, waiting.place[i], found.word);
    _mm512_storeu_si512(stretch.moved.position + at,
                        _mm512_add_epi16(found.position, _mm512_set1_epi16(static_cast<short>(first))));
    copy_moves(moves, there, stretch.moved.move + at);
    // Nothing waits for how many there are where all of them are.
    const std::uint32_t changes = here == ~0U ? 32 : static_cast<std::uint32_t>(__builtin_popcount(here));
    stretch.moved.count = at + changes;
    ranks += changes;
    moves += changes;
    left -= changes;
    if (here != ~0U) break;
  }
  waiting.ranks[i] = ranks;
  waiting.moves[i] = moves;
  waiting.changes[i] = left;
}

template <class T, Order order>
bool apply_classed(void* elements, std::uint32_t count, const ClassedChanges* changes) {
  const ClassTable table(changes->bounds, changes->bound_count);
  Waiting<T> waiting;
  waiting.begin(*changes, nullptr);
  WordTable tables[16];
  const Powers powers;
  Stretch<T, InMarks> stretch;
  const ClassMarks& marks = stretch.places.marks;
  char* const bytes = static_cast<char*>(elements);
  const auto move = [&] {
    stretch.template move<order>(bytes, changes->flips);
    stretch.moved.count = 0;
  };
  for (std::uint32_t first = 0; first < count && waiting.count > 0; first += k_stretch) {
    const std::uint32_t length = count - first < k_stretch ? count - first : k_stretch;
    mark_stretch<T, order>(bytes + first * sizeof(T), length, table, stretch.places.marks);
    // All at first: how many changes of a class a stretch has cannot be foretold, and a wrong guess should not have to
    // wait for a table.
    for (std::uint32_t i = 0; i < waiting.count; ++i) {
      const std::uint64_t* const ends = marks.ends + (waiting.place[i] & 3) * k_words;
      const std::uint64_t* const begins = marks.begins + (waiting.place[i] >> 2) * k_words;
      tables[i].count([&](std::uint32_t word) {
        return _mm512_and_si512(_mm512_load_si512(ends + k_lanes * word), _mm512_load_si512(begins + k_lanes * word));
      });
    }
    for (std::uint32_t i = 0; i < waiting.count; ++i) {
      find_changes(waiting, i, first, tables[i], powers, stretch, move);
    }
    waiting.close_ranks();
    move();
  }
  return waiting.finish(*changes);
}

// Stretch by stretch, each through all deltas: of bf16 it and a map of 16 ranges are 36 KiB, where the whole block and
// its map would be eight times that.
template <class T, Order order>
std::uint32_t apply_chained(void* elements, std::uint32_t count, const ClassRanges* ranges,
                            const ChainedChanges* deltas, std::uint32_t delta_count, void* scratch) {
  ClassMap map(*ranges, scratch);
  Waiting<T> waiting[k_most_chained];
  for (std::uint32_t i = 0; i < delta_count; ++i) waiting[i].begin(deltas[i].changes, deltas[i].range_of_class);
  const Powers powers;
  Stretch<T, InRanges> stretch;
  stretch.places.members_of_ranges = map.members();
  Crossings crossings;
  char* const bytes = static_cast<char*>(elements);
  for (std::uint32_t first = 0; first < count; first += k_stretch) {
    const std::uint32_t length = count - first < k_stretch ? count - first : k_stretch;
    map.look_at<T, order>(bytes + first * sizeof(T), length);
    for (std::uint32_t i = 0; i < delta_count; ++i) {
      const auto move = [&] {
        stretch.template move<order>(bytes, deltas[i].changes.flips);
        // Nobody asks for the classes of what the last one moves.
        if (i + 1 < delta_count) crossings.note<order>(stretch.moved, map.class_of());
        stretch.moved.count = 0;
      };
      for (std::uint32_t k = 0; k < waiting[i].count; ++k) {
        find_changes(waiting[i], k, first, map.table(waiting[i].place[k]), powers, stretch, move);
      }
      waiting[i].close_ranks();
      move();
      if (crossings.too_many()) {
        map.look_at<T, order>(bytes + first * sizeof(T), length);
      } else {
        crossings.take_over(map);
      }
      crossings.clear();
    }
  }
  return finish_all(waiting, deltas, delta_count);
}

template <class T, Order order>
constexpr ClassedKernels k_classed = {
    join_raw_bits<T>, apply_classed<T, order>, {sizeof(ClassMap::Places), apply_chained<T, order>}};

}  // namespace

const ClassedKernels k_classed_avx512[3][2] = {
    {k_classed<std::uint8_t, Order::plain>, k_classed<std::uint8_t, Order::sign_magnitude>},
    {k_classed<std::uint16_t, Order::plain>, k_classed<std::uint16_t, Order::sign_magnitude>},
    {k_classed<std::uint32_t, Order::plain>, k_classed<std::uint32_t, Order::sign_magnitude>},
};

}  // namespace wdelta
