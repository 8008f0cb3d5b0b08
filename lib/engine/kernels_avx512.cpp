// SPDX-License-Identifier: Apache-2.0
// AVX-512 with VBMI2. Blocks are walked in stretches that the first-level cache holds: compare into masks of 64
// elements, turn masks into positions, then pick up the values at the positions and make steps of them; one branch per
// stretch depends on where the changes lie.
#include "engine/class_ranks_avx512.hpp"
#include "engine/coding_avx2.hpp"
#include "engine/coding_avx512.hpp"
#include "engine/decoding_avx512.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/kernels.hpp"
#include "engine/signs_avx512.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

template <class T>
constexpr std::uint32_t k_found_at_a_time = sizeof(T) <= 2 ? 4096 : 8192 / sizeof(T);
// Above this many changes in a stretch, compressing every vector is faster than loading one value after the other.
template <class T>
constexpr std::uint32_t k_pick_above = k_found_at_a_time<T> * sizeof(T) / 16;

// Of two streams at once the second-level cache gives a little more when asked early.
constexpr std::size_t k_ahead_bytes = 512;

template <class T, Order order>
T stepped(T base, T step) {
  const T s = static_cast<T>((step >> 1) ^ static_cast<T>(0 - (step & 1)));
  return ordered<T, order>(static_cast<T>(ordered<T, order>(base) + s));
}

template <class T>
std::uint64_t unequal(__m512i a, __m512i b) {
  if constexpr (sizeof(T) == 1) return _mm512_cmpneq_epi8_mask(a, b);
  if constexpr (sizeof(T) == 2) return _mm512_cmpneq_epi16_mask(a, b);
  if constexpr (sizeof(T) == 4) return _mm512_cmpneq_epi32_mask(a, b);
  if constexpr (sizeof(T) == 8) return _mm512_cmpneq_epi64_mask(a, b);
}

/// Which of 64 elements differ.
template <class T>
std::uint64_t unequal_word(const char* base, const char* next) {
  std::uint64_t mask = 0;
  for (std::size_t v = 0; v < sizeof(T); ++v) {
    mask |= unequal<T>(_mm512_loadu_si512(base + 64 * v), _mm512_loadu_si512(next + 64 * v)) << (v * 64 / sizeof(T));
  }
  return mask;
}

/// The same for fewer than 64; masked loads do not touch what lies behind them.
template <class T>
std::uint64_t unequal_word(const char* base, const char* next, std::uint32_t count) {
  std::uint64_t mask = 0;
  const std::size_t size_bytes = count * sizeof(T);
  for (std::size_t v = 0; v * 64 < size_bytes; ++v) {
    const std::size_t left = size_bytes - v * 64;
    const __mmask64 there = left >= 64 ? ~0ULL : _bzhi_u64(~0ULL, static_cast<unsigned>(left));
    mask |= unequal<T>(_mm512_maskz_loadu_epi8(there, base + 64 * v), _mm512_maskz_loadu_epi8(there, next + 64 * v))
            << (v * 64 / sizeof(T));
  }
  return mask;
}

/// Writes the positions of the set bits, and rubbish up to 64 entries behind them. Compressing to a register and
/// storing all of it is many times faster on Zen 4 than compressing to memory.
std::uint32_t list_bits(std::uint64_t mask, std::uint32_t first, std::uint16_t* positions) {
  const __m512i lanes = _mm512_maskz_compress_epi8(mask, _mm512_load_si512(k_counting.bytes));
  const auto bits = static_cast<std::uint32_t>(__builtin_popcountll(mask));
  // Zero-masked extraction of everything: the plain form warns in GCC 12, whose header leaves its source unset.
  if (bits <= 16) {  // almost always
    const __m256i low = _mm256_cvtepu8_epi16(_mm512_maskz_extracti32x4_epi32(0xf, lanes, 0));
    const __m256i start = _mm256_set1_epi16(static_cast<short>(first));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(positions), _mm256_add_epi16(start, low));
    return bits;
  }
  const __m512i start = _mm512_set1_epi16(static_cast<short>(first));
  const __m512i low = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xf, lanes, 0));
  const __m512i high = _mm512_cvtepu8_epi16(_mm512_maskz_extracti64x4_epi64(0xf, lanes, 1));
  _mm512_storeu_si512(positions, _mm512_add_epi16(start, low));
  _mm512_storeu_si512(positions + 32, _mm512_add_epi16(start, high));
  return bits;
}

/// Which of up to 64 masks are not empty.
std::uint64_t not_empty(const std::uint64_t* masks, std::uint32_t count) {
  std::uint64_t which = 0;
  for (std::uint32_t i = 0; i < count; i += 8) {
    const __m512i some = _mm512_load_si512(masks + i);
    which |= static_cast<std::uint64_t>(_mm512_test_epi64_mask(some, some)) << i;
  }
  return which;
}

template <class T>
__m512i compress(std::uint64_t mask, __m512i lanes) {
  if constexpr (sizeof(T) == 1) return _mm512_maskz_compress_epi8(mask, lanes);
  if constexpr (sizeof(T) == 2) return _mm512_maskz_compress_epi16(static_cast<__mmask32>(mask), lanes);
  if constexpr (sizeof(T) == 4) return _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), lanes);
  if constexpr (sizeof(T) == 8) return _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), lanes);
}

/// Picks the elements of up to 64 whose bit is set, and rubbish behind them.
template <class T>
void pick(const char* array, std::uint64_t mask, std::uint32_t count, T* picked) {
  constexpr std::uint32_t per_vector = 64 / sizeof(T);
  const std::size_t size_bytes = count * sizeof(T);
  for (std::size_t v = 0; v * 64 < size_bytes; ++v) {
    const std::uint64_t bits = _bzhi_u64(mask >> (v * per_vector % 64), per_vector);
    const __m512i lanes = size_bytes - v * 64 >= 64
                              ? _mm512_loadu_si512(array + v * 64)
                              : _mm512_maskz_loadu_epi8(_bzhi_u64(~0ULL, size_bytes - v * 64), array + v * 64);
    _mm512_storeu_si512(picked, compress<T>(bits, lanes));
    picked += __builtin_popcountll(bits);
  }
}

/// A vector of elements. Loaded and stored by intrinsics: clang forgets aligned(1) where T is a parameter.
template <class T>
using Vector __attribute__((vector_size(64))) = T;

/// step_between() for all of them.
template <class T, Order order>
Vector<T> steps_between(Vector<T> base, Vector<T> next) {
  constexpr int to_sign = 8 * sizeof(T) - 1;
  if constexpr (order == Order::sign_magnitude) {
    base ^= (0 - (base >> to_sign)) >> 1;
    next ^= (0 - (next >> to_sign)) >> 1;
  }
  const Vector<T> s = next - base;
  return (s << 1) ^ (0 - (s >> to_sign));
}

/// Steps between `count` elements that were picked up, and rubbish up to 64 bytes behind them.
template <class T, Order order>
void store_steps(const T* from, const T* to, std::uint32_t count, char* steps) {
  for (std::size_t at = 0; at < count * sizeof(T); at += 64) {
    const auto base = reinterpret_cast<Vector<T>>(_mm512_loadu_si512(reinterpret_cast<const char*>(from) + at));
    const auto next = reinterpret_cast<Vector<T>>(_mm512_loadu_si512(reinterpret_cast<const char*>(to) + at));
    _mm512_storeu_si512(steps + at, reinterpret_cast<__m512i>(steps_between<T, order>(base, next)));
  }
}

/// The elements that differ in a stretch, on both sides, and rubbish behind them.
template <class T>
struct Picked {
  T from[k_found_at_a_time<T> + 64];
  T to[k_found_at_a_time<T> + 64];
};

/// Of at most k_found_at_a_time elements; positions are counted from `first` before them on.
template <class T>
std::uint32_t find_in_stretch(const char* base, const char* next, std::uint32_t length, std::uint32_t first,
                              std::uint16_t* positions, Picked<T>& picked) {
  constexpr std::uint32_t words = k_found_at_a_time<T> / k_word;
  static_assert(words <= 64);
  alignas(64) std::uint64_t masks[words];
  std::uint32_t at = 0;
  for (; at + k_word <= length; at += k_word) {
    masks[at / k_word] = unequal_word<T>(base + at * sizeof(T), next + at * sizeof(T));
    for (std::size_t v = 0; v < sizeof(T); ++v) {
      _mm_prefetch(base + at * sizeof(T) + 64 * v + k_ahead_bytes, _MM_HINT_T0);
      _mm_prefetch(next + at * sizeof(T) + 64 * v + k_ahead_bytes, _MM_HINT_T0);
    }
  }
  if (at < length) {
    masks[at / k_word] = unequal_word<T>(base + at * sizeof(T), next + at * sizeof(T), length - at);
    at += k_word;
  }
  for (; at < k_found_at_a_time<T>; at += k_word) masks[at / k_word] = 0;

  std::uint32_t changes = 0;
  const std::uint64_t changed_words = not_empty(masks, words);
  for (std::uint64_t left = changed_words; left != 0; left &= left - 1) {
    const auto word = static_cast<std::uint32_t>(__builtin_ctzll(left));
    // Nothing is read while changes are listed: time to ask for the next stretch.
    const std::size_t in_next_stretch = (k_found_at_a_time<T> + word * k_word) * sizeof(T);
    for (std::size_t v = 0; v < sizeof(T); ++v) {
      _mm_prefetch(base + in_next_stretch + 64 * v, _MM_HINT_T0);
      _mm_prefetch(next + in_next_stretch + 64 * v, _MM_HINT_T0);
    }
    changes += list_bits(masks[word], first + word * k_word, positions + changes);
  }
  if (changes > k_pick_above<T>) {
    std::uint32_t count = 0;
    for (at = 0; at < length; at += k_word) {
      const std::uint64_t mask = masks[at / k_word];
      const std::uint32_t there = length - at < k_word ? length - at : k_word;
      pick<T>(base + at * sizeof(T), mask, there, picked.from + count);
      pick<T>(next + at * sizeof(T), mask, there, picked.to + count);
      count += static_cast<std::uint32_t>(__builtin_popcountll(mask));
    }
  } else {
    for (std::uint32_t i = 0; i < changes; ++i) {
      const std::size_t position = positions[i] - first;
      picked.from[i] = load<T>(base, position);
      picked.to[i] = load<T>(next, position);
    }
  }
  return changes;
}

template <class T, Order order>
std::uint32_t find_changes(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                           void* steps) {
  Picked<T> picked;
  std::uint32_t found = 0;
  for (std::uint32_t first = 0; first < count; first += k_found_at_a_time<T>) {
    const std::uint32_t length = count - first < k_found_at_a_time<T> ? count - first : k_found_at_a_time<T>;
    const std::uint32_t changes = find_in_stretch<T>(static_cast<const char*>(base) + first * sizeof(T),
                                                     static_cast<const char*>(next) + first * sizeof(T), length, first,
                                                     positions + found, picked);
    store_steps<T, order>(picked.from, picked.to, changes, static_cast<char*>(steps) + found * sizeof(T));
    found += changes;
  }
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

template <class T, Order order, std::uint32_t quarters>
void rank_changes_of(const void* elements, std::uint32_t count, const ClassTable& table, const std::uint16_t* positions,
                     std::uint32_t changes, std::uint16_t* ranks, std::uint8_t* change_classes,
                     std::uint32_t* members) {
  const char* const from = static_cast<const char*>(elements);
  Ranks<T, order, quarters> in_stretch;
  std::uint32_t change = 0;
  for (std::uint32_t first = 0; first < count; first += k_stretch) {
    const std::uint32_t end = count - first < k_stretch ? count : first + k_stretch;
    in_stretch.mark_up_to(from, end, table);
    const std::uint32_t before = change;
    for (; change < changes && positions[change] < end; ++change) {
      change_classes[change] = table.class_of[context_of<T, order>(load<T>(from, positions[change]))];
    }
    in_stretch.rank(first, positions + before, change_classes + before, change - before, ranks + before);
  }
  in_stretch.store_members(from, count, table, members);
}

template <class T, Order order>
void rank_changes(const void* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count,
                  const std::uint16_t* positions, std::uint32_t changes, std::uint16_t* ranks,
                  std::uint8_t* change_classes, std::uint32_t* members) {
  const ClassTable table(bounds, bound_count);
  with_quarters(bound_count, [&](auto quarters) {
    rank_changes_of<T, order, decltype(quarters)::count>(elements, count, table, positions, changes, ranks,
                                                         change_classes, members);
  });
}

/// The classes of `count` elements, and rubbish up to 64 entries behind them; as many elements can be read.
template <class T, Order order>
void store_classes(const T* elements, std::uint32_t count, const ClassTable& table, std::uint8_t* classes) {
  // contexts_of() turned groups of eight round.
  const __m512i turned_round =
      _mm512_set4_epi64(0x08090a0b0c0d0e0f, 0x0001020304050607, 0x08090a0b0c0d0e0f, 0x0001020304050607);
  for (std::uint32_t i = 0; i < count; i += 64) {
    const __m512i contexts = contexts_of<T, order>(reinterpret_cast<const char*>(elements + i));
    const __m512i found =
        table.span == Span::narrow ? table.classes<Span::narrow>(contexts) : table.classes<Span::wide>(contexts);
    _mm512_storeu_si512(classes + i, _mm512_shuffle_epi8(found, turned_round));
  }
}

// A stretch is read from the second-level cache once, and is in the first-level cache still when it is marked; only
// those without changes are gone by then.
template <class T, Order order, std::uint32_t quarters>
std::uint32_t find_ranked_changes_of(const void* base, const void* next, std::uint32_t count, const ClassTable& table,
                                     std::uint16_t* positions, void* steps, std::uint16_t* ranks,
                                     std::uint8_t* change_classes, std::uint32_t* members) {
  static_assert(k_stretch % k_found_at_a_time<T> == 0);
  const char* const from = static_cast<const char*>(base);
  const char* const to = static_cast<const char*>(next);
  Picked<T> picked;
  Ranks<T, order, quarters> in_stretch;
  std::uint32_t found = 0;
  for (std::uint32_t first = 0; first < count; first += k_stretch) {
    const std::uint32_t end = count - first < k_stretch ? count : first + k_stretch;
    const std::uint32_t before = found;
    for (std::uint32_t at = first; at < end; at += k_found_at_a_time<T>) {
      const std::uint32_t length = end - at < k_found_at_a_time<T> ? end - at : k_found_at_a_time<T>;
      const std::uint32_t changes =
          find_in_stretch<T>(from + at * sizeof(T), to + at * sizeof(T), length, at, positions + found, picked);
      store_steps<T, order>(picked.from, picked.to, changes, static_cast<char*>(steps) + found * sizeof(T));
      store_classes<T, order>(picked.from, changes, table, change_classes + found);
      found += changes;
    }
    if (found == before) continue;
    in_stretch.mark_up_to(from, end, table);
    in_stretch.rank(first, positions + before, change_classes + before, found - before, ranks + before);
  }
  if (found == 0) return 0;
  in_stretch.mark_up_to(from, count, table);
  in_stretch.store_members(from, count, table, members);
  return found;
}

template <class T, Order order>
std::uint32_t find_ranked_changes(const void* base, const void* next, std::uint32_t count, const std::uint8_t* bounds,
                                  std::uint32_t bound_count, std::uint16_t* positions, void* steps,
                                  std::uint16_t* ranks, std::uint8_t* change_classes, std::uint32_t* members) {
  const ClassTable table(bounds, bound_count);
  return with_quarters(bound_count, [&](auto quarters) {
    return find_ranked_changes_of<T, order, decltype(quarters)::count>(base, next, count, table, positions, steps,
                                                                       ranks, change_classes, members);
  });
}

template <class T, Order order>
constexpr BlockKernels k_block = {find_changes<T, order>, apply_changes<T, order>, split_steps<T, order>,
                                  merge_steps<T, order>,  rank_changes<T, order>,  find_ranked_changes<T, order>};

}  // namespace

const KernelTable k_kernels_avx512 = {
    {
        {k_block<std::uint8_t, Order::plain>, k_block<std::uint8_t, Order::sign_magnitude>},
        {k_block<std::uint16_t, Order::plain>, k_block<std::uint16_t, Order::sign_magnitude>},
        {k_block<std::uint32_t, Order::plain>, k_block<std::uint32_t, Order::sign_magnitude>},
        {k_block<std::uint64_t, Order::plain>, k_block<std::uint64_t, Order::sign_magnitude>},
    },
    k_classed_avx512,
    {order_by_class_avx512, order_bytes_by_class_avx512, count_symbols_avx512, encode_symbols_avx512,
     decode_symbols_avx512, split_raw_bits_avx512},
    {list_rows_avx512, weigh_columns_avx512}};

}  // namespace wdelta
