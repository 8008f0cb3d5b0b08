// SPDX-License-Identifier: Apache-2.0
// AVX-512 with VBMI2. Blocks are walked in stretches that the first-level cache holds: compare into masks of 64
// elements, turn masks into positions, then pick up the values at the positions and make steps of them; one branch per
// stretch depends on where the changes lie.
#include "engine/coding_avx2.hpp"
#include "engine/coding_avx512.hpp"
#include "engine/decoding_avx2.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/kernels.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

constexpr std::uint32_t k_word = 64;  // elements per mask
template <class T>
constexpr std::uint32_t k_stretch = sizeof(T) <= 2 ? 4096 : 8192 / sizeof(T);
// Above this many changes in a stretch, compressing every vector is faster than loading one value after the other.
template <class T>
constexpr std::uint32_t k_pick_above = k_stretch<T> * sizeof(T) / 16;

alignas(64) constexpr std::uint8_t k_lanes[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
                                                  32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47,
                                                  48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};

template <class T, Order order>
T step_between(T base, T next) {
  const T s = static_cast<T>(ordered<T, order>(next) - ordered<T, order>(base));
  const T sign = static_cast<T>(0 - (s >> (8 * sizeof(T) - 1)));
  return static_cast<T>((s << 1) ^ sign);
}

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
  const __m512i lanes = _mm512_maskz_compress_epi8(mask, _mm512_load_si512(k_lanes));
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

/// A vector of elements, wherever it lies.
template <class T>
using Vector __attribute__((vector_size(64), aligned(1), may_alias)) = T;

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
    const auto* const base = reinterpret_cast<const Vector<T>*>(reinterpret_cast<const char*>(from) + at);
    const auto* const next = reinterpret_cast<const Vector<T>*>(reinterpret_cast<const char*>(to) + at);
    *reinterpret_cast<Vector<T>*>(steps + at) = steps_between<T, order>(*base, *next);
  }
}

template <class T, Order order>
std::uint32_t find_changes(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                           void* steps) {
  constexpr std::uint32_t words = k_stretch<T> / k_word;
  static_assert(words <= 64);
  std::uint32_t found = 0;
  for (std::uint32_t first = 0; first < count; first += k_stretch<T>) {
    const std::uint32_t length = count - first < k_stretch<T> ? count - first : k_stretch<T>;
    const char* const from_bytes = static_cast<const char*>(base) + first * sizeof(T);
    const char* const to_bytes = static_cast<const char*>(next) + first * sizeof(T);
    alignas(64) std::uint64_t masks[words];
    std::uint32_t at = 0;
    for (; at + k_word <= length; at += k_word) {
      masks[at / k_word] = unequal_word<T>(from_bytes + at * sizeof(T), to_bytes + at * sizeof(T));
    }
    if (at < length) {
      masks[at / k_word] = unequal_word<T>(from_bytes + at * sizeof(T), to_bytes + at * sizeof(T), length - at);
      at += k_word;
    }
    for (; at < k_stretch<T>; at += k_word) masks[at / k_word] = 0;

    std::uint32_t changes = 0;
    const std::uint64_t changed_words = not_empty(masks, words);
    for (std::uint64_t left = changed_words; left != 0; left &= left - 1) {
      const auto word = static_cast<std::uint32_t>(__builtin_ctzll(left));
      changes += list_bits(masks[word], first + word * k_word, positions + found + changes);
    }
    T from[k_stretch<T> + 64];
    T to[k_stretch<T> + 64];
    if (changes > k_pick_above<T>) {
      std::uint32_t picked = 0;
      for (at = 0; at < length; at += k_word) {
        const std::uint64_t mask = masks[at / k_word];
        const std::uint32_t there = length - at < k_word ? length - at : k_word;
        pick<T>(from_bytes + at * sizeof(T), mask, there, from + picked);
        pick<T>(to_bytes + at * sizeof(T), mask, there, to + picked);
        picked += static_cast<std::uint32_t>(__builtin_popcountll(mask));
      }
    } else {
      for (std::uint32_t i = 0; i < changes; ++i) {
        const std::size_t position = positions[found + i];
        from[i] = load<T>(base, position);
        to[i] = load<T>(next, position);
      }
    }
    store_steps<T, order>(from, to, changes, static_cast<char*>(steps) + found * sizeof(T));
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

/// The contexts of 64 elements: the byte below the sign, or the highest one.
template <class T, Order order>
__m512i contexts_of(const char* elements) {
  const __m512i* const vectors = reinterpret_cast<const __m512i*>(elements);
  const auto shifted = [&](std::size_t v) {
    const __m512i lanes = _mm512_loadu_si512(vectors + v);
    if constexpr (order == Order::plain) return lanes;
    if constexpr (sizeof(T) == 1) return _mm512_add_epi8(lanes, lanes);
    if constexpr (sizeof(T) == 2) return _mm512_add_epi16(lanes, lanes);
    return _mm512_add_epi32(lanes, lanes);
  };
  if constexpr (sizeof(T) == 1) {
    return shifted(0);
  } else if constexpr (sizeof(T) == 2) {
    alignas(64) static constexpr std::uint8_t k_high_bytes[64] = {
        1,  3,  5,  7,  9,  11, 13,  15,  17,  19,  21,  23,  25,  27,  29,  31,  33,  35,  37,  39, 41, 43,
        45, 47, 49, 51, 53, 55, 57,  59,  61,  63,  65,  67,  69,  71,  73,  75,  77,  79,  81,  83, 85, 87,
        89, 91, 93, 95, 97, 99, 101, 103, 105, 107, 109, 111, 113, 115, 117, 119, 121, 123, 125, 127};
    return _mm512_permutex2var_epi8(shifted(0), _mm512_load_si512(k_high_bytes), shifted(1));
  } else {
    const auto quarter = [&](std::size_t v) {
      return _mm512_maskz_cvtepi32_epi8(0xffff, _mm512_srli_epi32(shifted(v), 24));
    };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(0)), quarter(1), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(quarter(2)), quarter(3), 1);
    return _mm512_maskz_inserti64x4(0xff, _mm512_castsi256_si512(low), high, 1);
  }
}

/// Classes by context, in registers.
struct ClassTable {
  ClassTable(const std::uint8_t* bounds, std::uint32_t bound_count) {
    for (int quarter = 0; quarter < 4; ++quarter) {
      const __m512i contexts =
          _mm512_add_epi8(_mm512_load_si512(k_lanes), _mm512_set1_epi8(static_cast<char>(64 * quarter)));
      __m512i classes = _mm512_setzero_si512();
      for (std::uint32_t i = 0; i < bound_count; ++i) {
        const __mmask64 not_below = _mm512_cmpge_epu8_mask(contexts, _mm512_set1_epi8(static_cast<char>(bounds[i])));
        classes = _mm512_mask_add_epi8(classes, not_below, classes, _mm512_set1_epi8(1));
      }
      quarters[quarter] = classes;
    }
  }
  __m512i operator()(__m512i contexts) const {
    const __m512i low = _mm512_permutex2var_epi8(quarters[0], contexts, quarters[1]);
    const __m512i high = _mm512_permutex2var_epi8(quarters[2], contexts, quarters[3]);
    return _mm512_mask_mov_epi8(low, _mm512_movepi8_mask(contexts), high);
  }
  __m512i quarters[4];
};

template <class T, Order order>
void classify(const void* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count,
              std::uint8_t* classes) {
  const ClassTable class_of(bounds, bound_count);
  const char* const from = static_cast<const char*>(elements);
  std::uint32_t i = 0;
  for (; i + k_word <= count; i += k_word) {
    _mm512_storeu_si512(classes + i, class_of(contexts_of<T, order>(from + i * sizeof(T))));
  }
  if (i == count) return;
  char last[k_word * sizeof(T)] = {};
  __builtin_memcpy(last, from + i * sizeof(T), (count - i) * sizeof(T));
  const __m512i none = _mm512_set1_epi8(-1);
  _mm512_storeu_si512(classes + i,
                      _mm512_mask_mov_epi8(none, _bzhi_u64(~0ULL, count - i), class_of(contexts_of<T, order>(last))));
}

template <class T, Order order>
constexpr BlockKernels k_block = {find_changes<T, order>, apply_changes<T, order>, split_steps<T, order>,
                                  merge_steps<T, order>, classify<T, order>};

}  // namespace

const KernelTable k_kernels_avx512 = {
    {
        {k_block<std::uint8_t, Order::plain>, k_block<std::uint8_t, Order::sign_magnitude>},
        {k_block<std::uint16_t, Order::plain>, k_block<std::uint16_t, Order::sign_magnitude>},
        {k_block<std::uint32_t, Order::plain>, k_block<std::uint32_t, Order::sign_magnitude>},
        {k_block<std::uint64_t, Order::plain>, k_block<std::uint64_t, Order::sign_magnitude>},
    },
    k_classed_avx512,
    {rank_changes_avx512, order_by_class_avx512, count_symbols_avx512, encode_symbols_avx512, decode_symbols_avx2,
     split_raw_bits_avx512}};

}  // namespace wdelta
