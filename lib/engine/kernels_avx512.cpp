// SPDX-License-Identifier: Apache-2.0
// AVX-512 with VBMI2. Blocks are walked in stretches that the first-level cache holds: compare into masks of 64
// elements, turn masks into positions, then pick up the values at the positions; one branch per stretch depends on
// where the changes lie.
#include "engine/class_ranks_avx512.hpp"
#include "engine/coding_avx512.hpp"
#include "engine/decoding_avx512.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/kernels.hpp"
#include "engine/signs_avx512.hpp"

#include <immintrin.h>
#include <type_traits>

namespace wdelta {
namespace {

// Above this many changes in a stretch, compressing every vector is faster than loading one value after the other.
template <class T>
constexpr std::uint32_t k_pick_above = k_stretch * sizeof(T) / 16;

// Of two streams at once the second-level cache gives a little more when asked early.
constexpr std::size_t k_ahead_bytes = 512;

/// Calls visit(elements of the stretch, number of the first, how many) for each stretch of a block. The first is
/// shorter where elements begin in the midst of a line, so that those behind it begin with one: in a file tensors begin
/// anywhere, and registers that are loaded from two lines each cost find_changes() a fifth of its time (bench-engine, 1
/// % changed, on a Xeon, model 207: 36 GB/s, and 29 without).
template <class T, class Visit>
void each_stretch(const void* elements, std::uint32_t count, Visit visit) {
  const char* const begin = static_cast<const char*>(elements);
  const auto in_line = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(elements) % 64 / sizeof(T));
  for (std::uint32_t first = 0, end = k_stretch - in_line; first < count; first = end, end += k_stretch) {
    if (end > count) end = count;
    visit(begin + first * sizeof(T), first, end - first);
  }
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
void store_unequal(const Word<T>& base, const Word<T>& next, std::uint64_t& mask) {
  constexpr std::size_t k_part = 8 / sizeof(T);
#pragma GCC unroll 8
  for (std::size_t v = 0; v < sizeof(T); ++v) {
    const std::uint64_t bits = unequal<T>(base.parts[v], next.parts[v]);
    __builtin_memcpy(reinterpret_cast<char*>(&mask) + k_part * v, &bits, k_part);
  }
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

/// Which masks of a stretch are not.
std::uint32_t not_empty(const std::uint64_t* masks) {
  static_assert(k_words == 32);
  std::uint32_t which = 0;
  for (std::uint32_t i = 0; i < k_words; i += 8) {
    const __m512i some = _mm512_load_si512(masks + i);
    which |= std::uint32_t{_mm512_test_epi64_mask(some, some)} << i;
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
void pick_word(const char* array, std::uint64_t mask, std::uint32_t count, T* picked) {
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

/// Elements that differ, on both sides, until steps are made of many at once: vectors that are loaded right after their
/// elements were stored one by one wait for these.
template <class T, Order order>
class Picked {
 public:
  explicit Picked(void* steps) : steps_(static_cast<char*>(steps)) {}

  /// Picks the elements of a stretch at these positions, counted from `first` at its beginning on, which are those that
  /// `masks` say. Calls visit(i, place in the stretch, element of base) with each on the way, while it is at hand.
  template <class Visit>
  void pick(const char* base, const char* next, std::uint32_t length, std::uint32_t first, const std::uint64_t* masks,
            const std::uint16_t* positions, std::uint32_t changes, Visit visit) {
    if (count_ > k_room - k_stretch) finish();
    T* const from = from_ + count_;
    T* const to = to_ + count_;
    count_ += changes;
    if (changes > k_pick_above<T>) {
      std::uint32_t picked = 0;
      for (std::uint32_t at = 0; at < length; at += k_word) {
        const std::uint64_t mask = masks[at / k_word];
        const std::uint32_t there = length - at < k_word ? length - at : k_word;
        pick_word<T>(base + at * sizeof(T), mask, there, from + picked);
        pick_word<T>(next + at * sizeof(T), mask, there, to + picked);
        picked += static_cast<std::uint32_t>(__builtin_popcountll(mask));
      }
      for (std::uint32_t i = 0; i < changes; ++i) visit(i, positions[i] - first, from[i]);
    } else {
      for (std::uint32_t i = 0; i < changes; ++i) {
        const std::uint32_t place = positions[i] - first;
        const T element = load<T>(base, place);
        from[i] = element;
        to[i] = load<T>(next, place);
        visit(i, place, element);
      }
    }
  }
  /// Writes the steps of all, and rubbish up to 64 bytes behind them.
  void finish() {
    for (std::size_t at = 0; at < count_ * sizeof(T); at += 64) {
      const auto base = reinterpret_cast<Vector<T>>(_mm512_loadu_si512(reinterpret_cast<const char*>(from_) + at));
      const auto next = reinterpret_cast<Vector<T>>(_mm512_loadu_si512(reinterpret_cast<const char*>(to_) + at));
      _mm512_storeu_si512(steps_ + at, reinterpret_cast<__m512i>(steps_between<T, order>(base, next)));
    }
    steps_ += count_ * sizeof(T);
    count_ = 0;
  }

 private:
  static constexpr std::uint32_t k_room = 2 * k_stretch;

  char* steps_;
  std::uint32_t count_ = 0;
  T from_[k_room + 64];
  T to_[k_room + 64];
};

/// Which elements of a stretch differ: a mask for each word, and of those that are not there an empty one. Calls
/// look(base, word) with each word of base on the way, and for a last one that is shorter look(base, word, count).
template <class T, class Look>
void compare_stretch(const char* base, const char* next, std::uint32_t length, std::uint64_t* masks, Look& look) {
  constexpr std::size_t k_word_bytes = k_word * sizeof(T);
  const std::uint32_t whole = length / k_word;
  for (std::uint32_t word = 0; word < whole; ++word) {
    const char* const in_base = base + word * k_word_bytes;
    const char* const in_next = next + word * k_word_bytes;
    const Word<T> from = load_word<T>(in_base);
    store_unequal<T>(from, load_word<T>(in_next), masks[word]);
    for (std::size_t v = 0; v < sizeof(T); ++v) {
      _mm_prefetch(in_base + 64 * v + k_ahead_bytes, _MM_HINT_T0);
      _mm_prefetch(in_next + 64 * v + k_ahead_bytes, _MM_HINT_T0);
    }
    look(from, word);
  }
  std::uint32_t word = whole;
  const std::uint32_t rest = length % k_word;
  if (rest != 0) {
    const Word<T> from = load_word<T>(base + word * k_word_bytes, rest);
    store_unequal<T>(from, load_word<T>(next + word * k_word_bytes, rest), masks[word]);
    look(from, word++, rest);
  }
  for (; word < k_words; ++word) masks[word] = 0;
}

template <class T>
void compare_stretch(const char* base, const char* next, std::uint32_t length, std::uint64_t* masks) {
  const auto look_away = [](const auto&...) {};
  compare_stretch<T>(base, next, length, masks, look_away);
}

/// The positions that `masks` say, counted from `first` at the beginning of the stretch on.
template <class T>
std::uint32_t list_changes(const char* base, const char* next, std::uint32_t first, const std::uint64_t* masks,
                           std::uint16_t* positions) {
  std::uint32_t changes = 0;
  for (std::uint32_t left = not_empty(masks); left != 0; left = _blsr_u32(left)) {
    const std::uint32_t word = _tzcnt_u32(left);
    // Nothing is read while changes are listed: time to ask for the next stretch.
    const std::size_t in_next_stretch = (k_stretch + word * k_word) * sizeof(T);
    for (std::size_t v = 0; v < sizeof(T); ++v) {
      _mm_prefetch(base + in_next_stretch + 64 * v, _MM_HINT_T0);
      _mm_prefetch(next + in_next_stretch + 64 * v, _MM_HINT_T0);
    }
    changes += list_bits(masks[word], first + word * k_word, positions + changes);
  }
  return changes;
}

template <class T, Order order>
std::uint32_t find_changes(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                           void* steps) {
  alignas(64) std::uint64_t masks[k_words];
  Picked<T, order> picked(steps);
  std::uint32_t found = 0;
  each_stretch<T>(base, count, [&](const char* from, std::uint32_t first, std::uint32_t length) {
    const char* const to = static_cast<const char*>(next) + first * sizeof(T);
    compare_stretch<T>(from, to, length, masks);
    const std::uint32_t changes = list_changes<T>(from, to, first, masks, positions + found);
    picked.pick(from, to, length, first, masks, positions + found, changes, [](auto...) {});
    found += changes;
  });
  picked.finish();
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

template <class T, Order order>
void rank_changes(const void* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count,
                  const std::uint16_t* positions, std::uint32_t changes, std::uint16_t* ranks,
                  std::uint8_t* change_classes, std::uint32_t* members) {
  const ClassTable table(bounds, bound_count);
  with_ranks<T, order>(table, bound_count, [&](auto& in_stretch) {
    std::uint32_t change = 0;
    each_stretch<T>(elements, count, [&](const char* from, std::uint32_t first, std::uint32_t length) {
      in_stretch.mark_stretch(from, length);
      for (const std::uint32_t end = first + length; change < changes && positions[change] < end; ++change) {
        const std::uint32_t place = positions[change] - first;
        const std::uint8_t k = table.class_of[context_of<T, order>(load<T>(from, place))];
        change_classes[change] = k;
        ranks[change] = in_stretch.rank(place, k);
      }
    });
    in_stretch.store_members(members);
  });
}

// What is compared is marked on the way, while it is in registers. Nothing is marked before there is a change, as many
// blocks have none.
template <class T, Order order>
std::uint32_t find_ranked_changes(const void* base, const void* next, std::uint32_t count, const std::uint8_t* bounds,
                                  std::uint32_t bound_count, std::uint16_t* positions, void* steps,
                                  std::uint16_t* ranks, std::uint8_t* change_classes, std::uint32_t* members) {
  const ClassTable table(bounds, bound_count);
  return with_ranks<T, order>(table, bound_count, [&](auto& in_stretch) {
    using Marker = typename std::remove_reference_t<decltype(in_stretch)>::Marker;
    alignas(64) std::uint64_t masks[k_words];
    Picked<T, order> picked(steps);
    std::uint32_t found = 0;
    each_stretch<T>(base, count, [&](const char* from, std::uint32_t first, std::uint32_t length) {
      const char* const to = static_cast<const char*>(next) + first * sizeof(T);
      const bool is_marked = found != 0;
      if (is_marked) {
        Marker mark(in_stretch);
        compare_stretch<T>(from, to, length, masks, mark);
        mark.finish();
      } else {
        compare_stretch<T>(from, to, length, masks);
      }
      const std::uint32_t changes = list_changes<T>(from, to, first, masks, positions + found);
      if (changes == 0) return;
      if (!is_marked) {
        each_stretch<T>(base, first + length, [&](const char* elements, std::uint32_t, std::uint32_t marked) {
          in_stretch.mark_stretch(elements, marked);
        });
      }
      // Pointers of its own: a class could be written to what the captured ones lie in, as far as the compiler knows.
      const std::uint16_t* const positions_here = positions + found;
      std::uint8_t* const classes_here = change_classes + found;
      std::uint16_t* const ranks_here = ranks + found;
      const std::uint8_t* const class_of = table.class_of;
      picked.pick(from, to, length, first, masks, positions_here, changes,
                  [=, &in_stretch](std::uint32_t i, std::uint32_t place, T element) {
                    const std::uint8_t k = class_of[context_of<T, order>(element)];
                    classes_here[i] = k;
                    ranks_here[i] = in_stretch.rank(place, k);
                  });
      found += changes;
    });
    picked.finish();
    in_stretch.store_members(members);
    return found;
  });
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
    {list_rows_avx512, weigh_columns_avx512, fit_columns_avx512, count_negatives_avx512, set_signs_avx512}};

}  // namespace wdelta
