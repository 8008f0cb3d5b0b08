// SPDX-License-Identifier: Apache-2.0
// AVX2. Blocks are walked in stretches of 4,096 elements: compare into masks of 64 elements, list the set bits, then
// pick up the values at the positions and make steps of them.
#include "engine/class_counts_avx2.hpp"
#include "engine/coding_avx2.hpp"
#include "engine/decoding_avx2.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/kernels.hpp"
#include "engine/signs_avx2.hpp"
#include "engine/signs_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

template <class T, Order order>
T stepped(T base, T step) {
  const T s = static_cast<T>((step >> 1) ^ static_cast<T>(0 - (step & 1)));
  return ordered<T, order>(static_cast<T>(ordered<T, order>(base) + s));
}

/// Compares vector `v` of each side; lanes that are equal are all ones.
template <class T>
__m256i equal(const char* base, const char* next, std::size_t v) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(base + 32 * v));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next + 32 * v));
  if constexpr (sizeof(T) == 1) return _mm256_cmpeq_epi8(a, b);
  if constexpr (sizeof(T) == 2) return _mm256_cmpeq_epi16(a, b);
  if constexpr (sizeof(T) == 4) return _mm256_cmpeq_epi32(a, b);
  if constexpr (sizeof(T) == 8) return _mm256_cmpeq_epi64(a, b);
}

/// Which of 64 elements differ. Packing works within 128-bit lanes, so the 64-bit quarters are put back in order.
template <class T>
std::uint64_t unequal_word(const char* base, const char* next) {
  std::uint64_t same = 0;
  if constexpr (sizeof(T) <= 2) {
    for (std::size_t half = 0; half < 2; ++half) {
      __m256i bytes;
      if constexpr (sizeof(T) == 1) {
        bytes = equal<T>(base, next, half);
      } else {
        bytes = _mm256_packs_epi16(equal<T>(base, next, 2 * half), equal<T>(base, next, 2 * half + 1));
        bytes = _mm256_permute4x64_epi64(bytes, 0b11'01'10'00);
      }
      same |= static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm256_movemask_epi8(bytes))) << (32 * half);
    }
  } else {
    for (std::size_t v = 0; v < 2 * sizeof(T); ++v) {
      const __m256i lanes = equal<T>(base, next, v);
      const int bits = sizeof(T) == 4 ? _mm256_movemask_ps(_mm256_castsi256_ps(lanes))
                                      : _mm256_movemask_pd(_mm256_castsi256_pd(lanes));
      same |= static_cast<std::uint64_t>(bits) << (v * 32 / sizeof(T));
    }
  }
  return ~same;
}

/// The same for fewer than 64, one by one.
template <class T>
std::uint64_t unequal_word(const char* base, const char* next, std::uint32_t count) {
  std::uint64_t mask = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    mask |= static_cast<std::uint64_t>(load<T>(base, i) != load<T>(next, i)) << i;
  }
  return mask;
}

/// Writes the positions of the set bits, and rubbish up to eight entries behind them: writing three at a time whether
/// they are there or not spares a branch that nothing can foretell. (Of four GCC 12 makes one number first, by a chain
/// of shifts: comparing blocks then takes twice as long.)
std::uint32_t list_bits(std::uint64_t mask, std::uint32_t first, std::uint16_t* positions) {
  const auto bits = static_cast<std::uint32_t>(__builtin_popcountll(mask));
  std::uint32_t listed = 0;
  do {
    for (std::uint32_t i = 0; i < 3; ++i) {
      positions[listed + i] = static_cast<std::uint16_t>(first + _tzcnt_u64(mask));
      mask = _blsr_u64(mask);
    }
    listed += 3;
  } while (listed < bits);
  return bits;
}

/// Which elements of a stretch differ: a mask for each word. Returns which of these are not empty.
template <class T>
std::uint64_t compare_stretch(const char* base, const char* next, std::uint32_t length, std::uint64_t* masks) {
  std::uint64_t changed = 0;
  std::uint32_t word = 0;
  const auto keep = [&](std::uint64_t mask) {
    masks[word] = mask;
    changed |= std::uint64_t{mask != 0} << word++;
  };
  std::uint32_t at = 0;
  for (; at + k_word <= length; at += k_word) keep(unequal_word<T>(base + at * sizeof(T), next + at * sizeof(T)));
  if (at < length) keep(unequal_word<T>(base + at * sizeof(T), next + at * sizeof(T), length - at));
  return changed;
}

/// Writes the positions that the masks of `words` say, counted from `first` at the beginning of the stretch on, and the
/// steps. Returns how many there are.
template <class T, Order order>
std::uint32_t pick_changes(const char* base, const char* next, std::uint32_t first, std::uint64_t words,
                           const std::uint64_t* masks, std::uint16_t* positions, char* steps) {
  std::uint32_t changes = 0;
  for (; words != 0; words = _blsr_u64(words)) {
    const auto word = static_cast<std::uint32_t>(_tzcnt_u64(words));
    changes += list_bits(masks[word], first + word * k_word, positions + changes);
  }
  T from[k_stretch];
  T to[k_stretch];
  for (std::uint32_t i = 0; i < changes; ++i) {
    const std::size_t place = positions[i] - first;
    from[i] = load<T>(base, place);
    to[i] = load<T>(next, place);
  }
  for (std::size_t i = 0; i < changes; ++i) store<T>(steps, i, step_between<T, order>(from[i], to[i]));
  return changes;
}

/// Calls look(elements, first, length) with one stretch of a block after the other.
template <class T, class Look>
void each_stretch(const void* elements, std::uint32_t count, Look look) {
  for (std::uint32_t first = 0; first < count; first += k_stretch) {
    look(static_cast<const char*>(elements) + first * sizeof(T), first,
         count - first < k_stretch ? count - first : k_stretch);
  }
}

template <class T, Order order>
std::uint32_t find_changes(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                           void* steps) {
  std::uint64_t masks[k_words];
  std::uint32_t found = 0;
  each_stretch<T>(base, count, [&](const char* from, std::uint32_t first, std::uint32_t length) {
    const char* const to = static_cast<const char*>(next) + first * sizeof(T);
    const std::uint64_t changed = compare_stretch<T>(from, to, length, masks);
    if (changed == 0) return;
    found += pick_changes<T, order>(from, to, first, changed, masks, positions + found,
                                    static_cast<char*>(steps) + found * sizeof(T));
  });
  return found;
}

template <class T, Order order>
void apply_changes(void* elements, const std::uint16_t* positions, const void* steps, std::uint32_t changes) {
  for (std::uint32_t i = 0; i < changes; ++i) {
    const std::size_t at = load<std::uint16_t>(positions, i);
    store<T>(elements, at, stepped<T, order>(load<T>(elements, at), load<T>(steps, i)));
  }
}

// In runs short enough for the first-level cache: two plain loops become vectors where one over all planes does not.
constexpr std::size_t k_run = 256;

template <class T, Order order>
void split_steps(const void* base, const void* next, std::uint32_t count, std::uint8_t* planes) {
  for (std::size_t first = 0; first < count; first += k_run) {
    const std::size_t length = count - first < k_run ? count - first : k_run;
    const char* const from = static_cast<const char*>(base) + first * sizeof(T);
    const char* const to = static_cast<const char*>(next) + first * sizeof(T);
    T steps[k_run];
    for (std::size_t i = 0; i < length; ++i) steps[i] = step_between<T, order>(load<T>(from, i), load<T>(to, i));
    for (std::size_t k = 0; k < sizeof(T); ++k) {
      std::uint8_t* const plane = planes + k * count + first;
      for (std::size_t i = 0; i < length; ++i) plane[i] = static_cast<std::uint8_t>(steps[i] >> (8 * k));
    }
  }
}

template <class T, Order order>
void merge_steps(void* elements, std::uint32_t count, const std::uint8_t* planes) {
  for (std::size_t i = 0; i < count; ++i) {
    T step = 0;
    for (std::size_t k = 0; k < sizeof(T); ++k) {
      step = static_cast<T>(step | static_cast<T>(static_cast<T>(planes[k * count + i]) << (8 * k)));
    }
    store<T>(elements, i, stepped<T, order>(load<T>(elements, i), step));
  }
}

/// How many members of its class lie before an element, stretch after stretch of a block.
template <class T, Order order>
class Ranks {
 public:
  Ranks(const std::uint8_t* bounds, std::uint32_t bound_count) : table_(bounds, bound_count) {}

  void take_in(const char* elements, std::uint32_t length) {
    for (std::uint32_t k = 0; k < table_.class_count(); ++k) {
      before_half_[0][k] = static_cast<std::uint16_t>(members_[k]);
    }
    count_stretch<T, order>(elements, length, table_, counted_);
    for (std::uint32_t k = 0; k < table_.class_count(); ++k) {
      before_half_[1][k] = static_cast<std::uint16_t>(members_[k] + counted_.members[k / 8][0][k % 8]);
      members_[k] += counted_.members_of(k);
    }
  }
  /// Of elements of the stretch that was taken in last, which begins at `first`.
  void rank(const std::uint16_t* positions, std::uint32_t first, std::uint32_t changes, std::uint16_t* ranks,
            std::uint8_t* change_classes) const {
    // As far as compilers know, what is written could be anything else.
    const std::uint32_t half_words = counted_.half_words;
    for (std::uint32_t i = 0; i < changes; ++i) {
      const std::uint32_t element = positions[i] - first;
      const std::uint32_t word = element / k_word;
      const std::uint32_t half = word < half_words ? 0 : 1;
      const std::uint8_t k = table_.class_of(counted_.contexts[element]);
      const std::uint64_t members = table_.contexts()[k].mask(counted_.contexts + word * k_word);
      const auto in_word = static_cast<std::uint32_t>(__builtin_popcountll(_bzhi_u64(members, element % k_word)));
      change_classes[i] = k;
      ranks[i] = static_cast<std::uint16_t>(before_half_[half][k] +
                                            counted_.before[k / 8][word - half * half_words][half][k % 8] + in_word);
    }
  }
  void store_members(std::uint32_t* members) const { __builtin_memcpy(members, members_, sizeof(members_)); }

 private:
  ClassTable table_;
  CountedStretch counted_;
  std::uint16_t before_half_[2][k_classes];
  std::uint32_t members_[k_classes] = {};
};

template <class T, Order order>
void rank_changes(const void* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count,
                  const std::uint16_t* positions, std::uint32_t changes, std::uint16_t* ranks,
                  std::uint8_t* change_classes, std::uint32_t* members) {
  Ranks<T, order> in_class(bounds, bound_count);
  std::uint32_t change = 0;
  each_stretch<T>(elements, count, [&](const char* from, std::uint32_t first, std::uint32_t length) {
    in_class.take_in(from, length);
    const std::uint32_t here = change;
    for (const std::uint32_t end = first + length; change < changes && positions[change] < end;) ++change;
    in_class.rank(positions + here, first, change - here, ranks + here, change_classes + here);
  });
  in_class.store_members(members);
}

// Nothing is counted before there is a change, as many blocks have none.
template <class T, Order order>
std::uint32_t find_ranked_changes(const void* base, const void* next, std::uint32_t count, const std::uint8_t* bounds,
                                  std::uint32_t bound_count, std::uint16_t* positions, void* steps,
                                  std::uint16_t* ranks, std::uint8_t* change_classes, std::uint32_t* members) {
  Ranks<T, order> in_class(bounds, bound_count);
  std::uint64_t masks[k_words];
  std::uint32_t found = 0;
  each_stretch<T>(base, count, [&](const char* from, std::uint32_t first, std::uint32_t length) {
    const char* const to = static_cast<const char*>(next) + first * sizeof(T);
    const std::uint64_t changed = compare_stretch<T>(from, to, length, masks);
    if (found == 0 && changed == 0) return;
    if (found == 0) {
      each_stretch<T>(base, first, [&](const char* before, std::uint32_t, std::uint32_t before_length) {
        in_class.take_in(before, before_length);
      });
    }
    in_class.take_in(from, length);
    if (changed == 0) return;
    const std::uint32_t changes = pick_changes<T, order>(from, to, first, changed, masks, positions + found,
                                                         static_cast<char*>(steps) + found * sizeof(T));
    in_class.rank(positions + found, first, changes, ranks + found, change_classes + found);
    found += changes;
  });
  in_class.store_members(members);
  return found;
}

template <class T, Order order>
constexpr BlockKernels k_block = [] {
  BlockKernels kernels = {
      find_changes<T, order>, apply_changes<T, order>, split_steps<T, order>, merge_steps<T, order>, nullptr, nullptr};
  if constexpr (sizeof(T) <= 4) {
    kernels.rank_changes = rank_changes<T, order>;
    kernels.find_ranked_changes = find_ranked_changes<T, order>;
  }
  return kernels;
}();

}  // namespace

const KernelTable k_kernels_avx2 = {
    {
        {k_block<std::uint8_t, Order::plain>, k_block<std::uint8_t, Order::sign_magnitude>},
        {k_block<std::uint16_t, Order::plain>, k_block<std::uint16_t, Order::sign_magnitude>},
        {k_block<std::uint32_t, Order::plain>, k_block<std::uint32_t, Order::sign_magnitude>},
        {k_block<std::uint64_t, Order::plain>, k_block<std::uint64_t, Order::sign_magnitude>},
    },
    k_classed_avx2,
    {order_by_class_avx2, order_bytes_by_class_avx2, count_symbols_avx2, encode_symbols_avx2, decode_symbols_avx2,
     split_raw_bits_avx2},
    {list_rows_avx2, weigh_columns_scalar, fit_columns_avx2, count_negatives_avx2, set_signs_avx2}};

}  // namespace wdelta
