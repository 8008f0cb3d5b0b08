// SPDX-License-Identifier: Apache-2.0
// ClassedKernels with AVX-512. Stretches of 16,384 elements: class numbers as bit planes of 256 words each, how many
// members of a class lie before each word, the words of 32 changes at a time by halves in a few registers, and only
// then one change after the other. No branch depends on where the changes lie, but for how many there are of a class.
// (Stretches of 4,096, which need no more than two registers, took twice as long: each class is a chain of dependent
// steps, and there are four times as many.)
#include "engine/class_marks_avx512.hpp"
#include "engine/kernels.hpp"
#include "engine/moved_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_words = 256;
constexpr std::uint32_t k_stretch = k_word * k_words;
constexpr std::uint32_t k_lanes = 8;  // of a register, and of a stretch
constexpr std::uint32_t k_words_in_lane = k_words / k_lanes;
constexpr std::uint32_t k_moves_at_a_time = 2048;

/// A stretch of elements and the changes found in it, of all classes one behind the other.
template <class T>
struct Stretch {
  // First the first word of each lane, then the second of each: sums along a lane need no more than additions.
  ClassMarks<k_words, k_words_in_lane> marks;
  MovedElements<T, k_moves_at_a_time> moved;        // positions: of the first element in the word
  std::uint16_t ends_at[k_moves_at_a_time + 32];    // the word of a change in `ends`,
  std::uint16_t begins_at[k_moves_at_a_time + 32];  // and in `begins`
  std::uint16_t rank[k_moves_at_a_time + 32];       // among the members in its word

  /// Moves the elements found so far. What class they had stays marked.
  template <Order order>
  void move(char* elements, const std::uint64_t* flips) {
    moved.template apply<order>(elements, flips, [this](std::uint32_t i) {
      const std::uint64_t members = marks.ends[ends_at[i]] & marks.begins[begins_at[i]];
      const std::uint64_t bit = _pdep_u64(1ULL << rank[i], members);
      return moved.position[i] + static_cast<std::uint32_t>(_tzcnt_u64(bit));
    });
    moved.count = 0;
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

/// Changes of one class that are still to come.
template <class T>
struct Waiting {
  const std::uint16_t* ranks;
  const T* moves;
  std::uint32_t changes;
  std::uint16_t members;  ///< before the stretch
};

/// Powers of two in every lane, in memory: made anew each time, as GCC would, they are half of the work.
struct Powers {
  Powers() {
    for (int i = 0; i < 8; ++i) _mm512_store_si512(of[i], _mm512_set1_epi16(static_cast<short>(1 << i)));
    asm volatile("" : : "r"(this) : "memory");
  }
  __m512i operator[](int exponent) const { return _mm512_load_si512(of[exponent]); }

  alignas(64) std::uint16_t of[8][32];
};

/// How many members of a class lie before each word of a stretch.
class WordTable {
 public:
  void count(const std::uint64_t* ends, const std::uint64_t* begins) {
    __m512i sums = _mm512_setzero_si512();  // of each lane so far
    const auto before_next = [&](std::uint32_t word) {
      const __m512i before = sums;
      const __m512i members =
          _mm512_and_si512(_mm512_load_si512(ends + k_lanes * word), _mm512_load_si512(begins + k_lanes * word));
      sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(members));
      return before;
    };
    __m512i before[k_rows];
#pragma GCC unroll 8
    for (std::uint32_t row = 0; row < k_rows; ++row) {
      before[row] = before_next(4 * row);
      for (std::uint32_t word = 1; word < 4; ++word) {
        before[row] = _mm512_or_si512(before[row], _mm512_slli_epi64(before_next(4 * row + word), 16 * word));
      }
    }
    // What all lanes before have is added to each.
    const __m512i none = _mm512_setzero_si512();
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 7));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 6));
    sums = _mm512_add_epi64(sums, _mm512_alignr_epi64(sums, none, 4));
    __m512i lanes = _mm512_alignr_epi64(sums, none, 7);
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 16));
    lanes = _mm512_or_si512(lanes, _mm512_slli_epi64(lanes, 32));
    for (std::uint32_t row = 0; row < k_rows; ++row) {
      _mm512_store_si512(before_[row], _mm512_add_epi16(before[row], lanes));
    }
    members_ = static_cast<std::uint16_t>(_mm_extract_epi16(_mm512_extracti32x4_epi32(sums, 3), 4));
  }
  /// In the stretch.
  std::uint16_t members() const { return members_; }

  /// Where 32 changes with these ranks lie: the last word that has no more members before it than the rank says. Steps
  /// are chosen by arithmetic, which takes half as long as by masks.
  struct Found {
    __m512i word;      ///< as the stretch counts them
    __m512i position;  ///< of its first element, in the stretch
    __m512i rank;      ///< in the word
  };
  Found find(const Powers& powers, __m512i ranks) const {
    const auto stepped = [&](__m512i word, __m512i step, __m512i before) {
      const __m512i too_far = _mm512_srai_epi16(_mm512_sub_epi16(ranks, before), 15);
      return _mm512_ternarylogic_epi64(word, step, too_far, 0xf4);  // word | (step & ~too_far)
    };
    const auto fourths_of = [&](int table) {
      alignas(64) static constexpr std::uint16_t k_fourths[32] = {0,  4,  8,  12, 16, 20, 24, 28, 32, 36, 40,
                                                                  44, 48, 52, 56, 60, 0,  4,  8,  12, 16, 20,
                                                                  24, 28, 32, 36, 40, 44, 48, 52, 56, 60};
      const __m512i fourths = _mm512_load_si512(k_fourths);
      return _mm512_mask_mov_epi16(_mm512_permutex2var_epi16(before(table), fourths, before(table + 1)), 0xffff0000,
                                   _mm512_permutex2var_epi16(before(table + 2), fourths, before(table + 3)));
    };
    const __m512i low_fourths = fourths_of(0);
    const __m512i high_fourths = fourths_of(4);
    // Of a word bits 0-2 are the lane and 3-5 the row, for every fourth one; then 0-1 the place in the row, 2-4 the
    // lane and 5-7 the row. The order of words goes by lane, row, place.
    const __m512i middle = _mm512_set1_epi16(static_cast<short>(before_[0][16]));
    __m512i word = stepped(_mm512_setzero_si512(), powers[2], middle);
    constexpr int k_exponents[] = {1, 0, 5, 4, 3};
#pragma GCC unroll 5
    for (const int exponent : k_exponents) {
      const __m512i further = _mm512_or_si512(word, powers[exponent]);
      word = stepped(word, powers[exponent], _mm512_permutex2var_epi16(low_fourths, further, high_fourths));
    }
    word = _mm512_slli_epi16(word, 2);
    const __mmask32 is_odd_pair = _mm512_test_epi16_mask(word, powers[6]);
    const __mmask32 is_high = _mm512_test_epi16_mask(word, powers[7]);
    const auto before_word = [&](__m512i at) {
      const auto pair = [&](int table) { return _mm512_permutex2var_epi16(before(table), at, before(table + 1)); };
      return _mm512_mask_mov_epi16(_mm512_mask_mov_epi16(pair(0), is_odd_pair, pair(2)), is_high,
                                   _mm512_mask_mov_epi16(pair(4), is_odd_pair, pair(6)));
    };
    word = stepped(word, powers[1], before_word(_mm512_or_si512(word, powers[1])));
    word = stepped(word, powers[0], before_word(_mm512_or_si512(word, powers[0])));
    const __m512i row = _mm512_and_si512(word, _mm512_set1_epi16(0xe0));
    const __m512i lane = _mm512_and_si512(_mm512_srli_epi16(word, 2), _mm512_set1_epi16(7));
    const __m512i place = _mm512_and_si512(word, _mm512_set1_epi16(3));
    const auto either = [](__m512i a, __m512i b, __m512i c) { return _mm512_ternarylogic_epi64(a, b, c, 0xfe); };
    return {either(row, lane, _mm512_slli_epi16(place, 3)),
            either(_mm512_slli_epi16(row, 3), _mm512_slli_epi16(lane, 11), _mm512_slli_epi16(place, 6)),
            _mm512_sub_epi16(ranks, before_word(word))};
  }

 private:
  static constexpr std::uint32_t k_rows = k_words_in_lane / 4;

  __m512i before(int row) const { return _mm512_load_si512(before_[row]); }

  /// Four words of each lane in a row.
  alignas(64) std::uint16_t before_[k_rows][4 * k_lanes];
  std::uint16_t members_;
};

/// Finds those changes of a class that lie in the stretch, which begins at `first`, and leaves the last few to be
/// moved.
template <class T, Order order>
void find_changes(std::uint32_t k, std::uint32_t first, char* elements, const std::uint64_t* flips,
                  const WordTable& table, const Powers& powers, Waiting<T>& waiting, Stretch<T>& stretch) {
  const __m512i before_stretch = _mm512_set1_epi16(static_cast<short>(waiting.members));
  const __m512i all = _mm512_set1_epi16(static_cast<short>(table.members()));
  waiting.members = static_cast<std::uint16_t>(waiting.members + table.members());
  for (;;) {
    const __mmask32 there = waiting.changes >= 32 ? ~0U : _bzhi_u32(~0U, waiting.changes);
    const __m512i rank = _mm512_sub_epi16(_mm512_maskz_loadu_epi16(there, waiting.ranks), before_stretch);
    const __mmask32 here = _mm512_mask_cmplt_epu16_mask(there, rank, all);
    if (here == 0) return;
    if (stretch.moved.count > k_moves_at_a_time - 32) stretch.template move<order>(elements, flips);
    const WordTable::Found found = table.find(powers, rank);
    const std::uint32_t at = stretch.moved.count;
    _mm512_storeu_si512(stretch.rank + at, found.rank);
    const auto word_in = [&](std::uint32_t row) {
      return _mm512_or_si512(found.word, _mm512_set1_epi16(static_cast<short>(row * k_words)));
    };
    _mm512_storeu_si512(stretch.ends_at + at, word_in(k & 3));
    _mm512_storeu_si512(stretch.begins_at + at, word_in(k >> 2));
    _mm512_storeu_si512(stretch.moved.position + at,
                        _mm512_add_epi16(found.position, _mm512_set1_epi16(static_cast<short>(first))));
    copy_moves(waiting.moves, there, stretch.moved.move + at);
    // Nothing waits for how many there are where all of them are.
    const std::uint32_t changes = here == ~0U ? 32 : static_cast<std::uint32_t>(__builtin_popcount(here));
    stretch.moved.count = at + changes;
    waiting.ranks += changes;
    waiting.moves += changes;
    waiting.changes -= changes;
    if (here != ~0U) return;
  }
}

template <class T, Order order>
bool apply_classed(void* elements, std::uint32_t count, const ClassedChanges* changes) {
  const ClassTable table(changes->bounds, changes->bound_count);
  Waiting<T> waiting[16];
  std::uint32_t classes[16];  // those that have changes left
  std::uint32_t class_count = 0;
  std::uint32_t next = 0;
  for (std::uint32_t k = 0; k <= changes->bound_count; ++k) {
    waiting[class_count] = {changes->ranks + next, static_cast<const T*>(changes->moves) + next,
                            changes->class_changes[k], 0};
    classes[class_count] = k;
    class_count += changes->class_changes[k] != 0 ? 1 : 0;
    next += changes->class_changes[k];
  }
  WordTable tables[16];
  const Powers powers;
  Stretch<T> stretch;
  char* const bytes = static_cast<char*>(elements);
  for (std::uint32_t first = 0; first < count && class_count > 0; first += k_stretch) {
    const std::uint32_t length = count - first < k_stretch ? count - first : k_stretch;
    mark_stretch<T, order>(bytes + first * sizeof(T), length, table, stretch.marks);
    // All at first: how many changes of a class a stretch has cannot be foretold, and a wrong guess should not have to
    // wait for a table.
    for (std::uint32_t i = 0; i < class_count; ++i) {
      tables[i].count(stretch.marks.ends + (classes[i] & 3) * k_words,
                      stretch.marks.begins + (classes[i] >> 2) * k_words);
    }
    std::uint32_t left = 0;
    for (std::uint32_t i = 0; i < class_count; ++i) {
      find_changes<T, order>(classes[i], first, bytes, changes->flips, tables[i], powers, waiting[i], stretch);
      waiting[left] = waiting[i];
      classes[left] = classes[i];
      left += waiting[i].changes != 0 ? 1 : 0;
    }
    class_count = left;
    stretch.template move<order>(bytes, changes->flips);
  }
  return class_count == 0;
}

/// What 16 changes have in their symbols and raw bits.
struct Sixteen {
  /// Lanes beyond `there` are symbols 0, which have no raw bits.
  Sixteen(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols, __mmask16 there) {
    gap = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, gap_symbols));
    step = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, step_symbols));
    distance = _mm512_srli_epi32(step, 1);
    gap_bits = bits_of(gap);
    distance_bits = bits_of(distance);
    bits = _mm512_add_epi32(gap_bits, distance_bits);
    bits_to_end = sums_of(bits);
  }
  /// Fills in the raw bits, a window of 64 bytes in which they begin at `from`.
  void fill(__m512i window, std::uint32_t from) {
    const __m512i at = _mm512_add_epi32(_mm512_sub_epi32(bits_to_end, bits), _mm512_set1_epi32(static_cast<int>(from)));
    const __m512i first_byte = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0x00000000);
    const __m512i bytes =
        _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi32(at, 3), first_byte), _mm512_set1_epi32(0x03020100));
    const __m512i raw =
        _mm512_srlv_epi32(_mm512_permutexvar_epi8(bytes, window), _mm512_and_si512(at, _mm512_set1_epi32(7)));
    gap = _mm512_add_epi32(begin_of(gap, gap_bits), low_bits(raw, gap_bits));
    distance =
        _mm512_add_epi32(begin_of(distance, distance_bits), low_bits(_mm512_srlv_epi32(raw, gap_bits), distance_bits));
  }

  static __m512i sums_of(__m512i lanes) {
    const __m512i none = _mm512_setzero_si512();
    lanes = _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 15));
    lanes = _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 14));
    lanes = _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 12));
    return _mm512_add_epi32(lanes, _mm512_alignr_epi32(lanes, none, 8));
  }
  static std::uint32_t last_of(__m512i lanes) {
    return static_cast<std::uint32_t>(_mm_extract_epi32(_mm512_extracti32x4_epi32(lanes, 3), 3));
  }

  // Buckets before fill(), then numbers.
  __m512i gap;
  __m512i distance;
  __m512i step;
  __m512i gap_bits;
  __m512i distance_bits;
  __m512i bits;
  __m512i bits_to_end;  // from the first lane's first one on

 private:
  static __m512i bits_of(__m512i bucket) {
    const __m512i one = _mm512_set1_epi32(1);
    return _mm512_sub_epi32(_mm512_max_epu32(_mm512_srli_epi32(bucket, 1), one), one);
  }
  static __m512i begin_of(__m512i bucket, __m512i bits) {
    const __m512i two_or_three = _mm512_or_si512(_mm512_and_si512(bucket, _mm512_set1_epi32(1)), _mm512_set1_epi32(2));
    return _mm512_sllv_epi32(_mm512_min_epu32(bucket, two_or_three), bits);
  }
  static __m512i low_bits(__m512i raw, __m512i bits) {
    return _mm512_andnot_si512(_mm512_sllv_epi32(_mm512_set1_epi32(-1), bits), raw);
  }
};

/// The same for changes with more raw bits than lanes have, one by one.
void fill_slowly(const std::uint8_t* raw, std::uint64_t at, Sixteen& changes) {
  alignas(64) std::uint32_t gap[16];
  alignas(64) std::uint32_t distance[16];
  _mm512_store_si512(gap, changes.gap);
  _mm512_store_si512(distance, changes.distance);
  const auto begin = [](std::uint32_t bucket, std::uint32_t bits) {
    return bucket < 4 ? bucket : (2 + (bucket & 1)) << bits;
  };
  for (std::uint32_t lane = 0; lane < 16; ++lane) {
    const std::uint32_t gap_bits = gap[lane] < 4 ? 0 : gap[lane] / 2 - 1;
    const std::uint32_t distance_bits = distance[lane] < 4 ? 0 : distance[lane] / 2 - 1;
    const std::uint64_t bits = load<std::uint64_t>(raw + at / 8, 0) >> (at % 8);
    gap[lane] = begin(gap[lane], gap_bits) + static_cast<std::uint32_t>(_bzhi_u64(bits, gap_bits));
    distance[lane] =
        begin(distance[lane], distance_bits) + static_cast<std::uint32_t>(_bzhi_u64(bits >> gap_bits, distance_bits));
    at += gap_bits + distance_bits;
  }
  changes.gap = _mm512_load_si512(gap);
  changes.distance = _mm512_load_si512(distance);
}

template <class T>
void store_moves(__m512i moves, T* to) {
  if constexpr (sizeof(T) == 1) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xffff, moves));
  } else if constexpr (sizeof(T) == 2) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(0xffff, moves));
  } else {
    _mm512_storeu_si512(to, moves);
  }
}

template <class T>
std::uint32_t join_raw_bits(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                            std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                            std::uint16_t* ranks, void* moves, std::uint64_t* raw_bits) {
  constexpr std::uint32_t k_most_bits = 25;  // in 32, from any bit of a byte on
  std::uint64_t at = 0;
  std::uint32_t i = 0;
  std::uint64_t last = 0;
  for (std::uint32_t k = 0; k < class_count; ++k) {
    std::uint64_t next = 0;
    for (std::uint32_t left = class_changes[k]; left > 0;) {
      const std::uint32_t done = left < 16 ? left : 16;
      const auto there = static_cast<__mmask16>(_bzhi_u32(0xffff, done));
      Sixteen changes(gap_symbols + i, step_symbols + i, there);
      const std::uint32_t all_bits = Sixteen::last_of(changes.bits_to_end);
      const __mmask16 long_ones = _mm512_cmpgt_epu32_mask(changes.bits, _mm512_set1_epi32(k_most_bits));
      if (long_ones == 0 && all_bits <= 512 - 7 - 32) {
        changes.fill(_mm512_loadu_si512(raw + at / 8), at % 8);
      } else {
        fill_slowly(raw, at, changes);
      }
      at += all_bits;
      const __m512i one = _mm512_set1_epi32(1);
      const __m512i sums = Sixteen::sums_of(_mm512_maskz_add_epi32(there, changes.gap, one));
      const __m512i before = _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(next) - 1));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(ranks + i),
                          _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_add_epi32(sums, before)));
      next += Sixteen::last_of(sums);
      const __m512i negative = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_and_si512(changes.step, one));
      const __m512i distance = _mm512_add_epi32(changes.distance, one);
      store_moves(_mm512_sub_epi32(_mm512_xor_si512(distance, negative), negative), static_cast<T*>(moves) + i);
      i += done;
      left -= done;
    }
    last = next > last ? next : last;
  }
  *raw_bits = at;
  return last > 65537 ? 65537 : static_cast<std::uint32_t>(last);
}

template <class T, Order order>
constexpr ClassedKernels k_classed = {join_raw_bits<T>, apply_classed<T, order>};

}  // namespace

const ClassedKernels k_classed_avx512[3][2] = {
    {k_classed<std::uint8_t, Order::plain>, k_classed<std::uint8_t, Order::sign_magnitude>},
    {k_classed<std::uint16_t, Order::plain>, k_classed<std::uint16_t, Order::sign_magnitude>},
    {k_classed<std::uint32_t, Order::plain>, k_classed<std::uint32_t, Order::sign_magnitude>},
};

}  // namespace wdelta
