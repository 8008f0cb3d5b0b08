// SPDX-License-Identifier: Apache-2.0
// Memory in words of 16 bytes, the widest that a thread reads or writes at once.
#pragma once

#include "engine/cuda/device_code.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta::cuda {

inline constexpr std::uint32_t k_word_bytes = 16;

/// 16 bytes. Parts are named by constants alone, so that they stay in registers.
struct alignas(16) Word {
  std::uint32_t part[4];
};

/// A word of global memory, where `at` (a multiple of 16) comes out of memory itself: compilers do not see then that it
/// is global, and would ask each time.
WDELTA_DEVICE Word load_word(const void* at) {
#if defined(__CUDACC__)
  __builtin_assume(__isGlobal(at));
  const uint4 bits = *static_cast<const uint4*>(at);
  return {{bits.x, bits.y, bits.z, bits.w}};
#else
  if (reinterpret_cast<std::uintptr_t>(at) % k_word_bytes != 0) __builtin_trap();
  Word word;
  __builtin_memcpy(&word, at, sizeof(word));
  return word;
#endif
}

/// The same for shared memory.
WDELTA_DEVICE Word load_shared_word(const void* at) {
#if defined(__CUDACC__)
  const uint4 bits = *static_cast<const uint4*>(at);
  return {{bits.x, bits.y, bits.z, bits.w}};
#else
  return load_word(at);
#endif
}

/// Into global memory. nvcc 13 makes four stores of one where entries are narrower than words; not of this.
WDELTA_DEVICE void store_word(void* at, const Word& word) {
#if defined(__CUDACC__)
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(at)), "r"(word.part[0]), "r"(word.part[1]), "r"(word.part[2]),
                 "r"(word.part[3])
               : "memory");
#else
  if (reinterpret_cast<std::uintptr_t>(at) % k_word_bytes != 0) __builtin_trap();
  __builtin_memcpy(at, &word, sizeof(word));
#endif
}

/// 32 bits of two words from bit `shift` (below 32) on.
WDELTA_DEVICE std::uint32_t funnel(std::uint32_t low, std::uint32_t high, std::uint32_t shift) {
#if defined(__CUDACC__)
  return __funnelshift_r(low, high, shift);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> shift);
#endif
}

/// The 16 bytes that begin `skew` (below 16) bytes into `low`.
WDELTA_DEVICE Word joined(const Word& low, const Word& high, std::uint32_t skew) {
  std::uint32_t part[8];
  WDELTA_UNROLL
  for (int i = 0; i < 4; ++i) {
    part[i] = low.part[i];
    part[4 + i] = high.part[i];
  }
  WDELTA_UNROLL
  for (int i = 0; i < 6; ++i) part[i] = (skew & 8) != 0 ? part[i + 2] : part[i];
  WDELTA_UNROLL
  for (int i = 0; i < 5; ++i) part[i] = (skew & 4) != 0 ? part[i + 1] : part[i];
  Word word;
  WDELTA_UNROLL
  for (int i = 0; i < 4; ++i) word.part[i] = funnel(part[i], part[i + 1], (skew & 3) * 8);
  return word;
}

/// Bytes at any address, as words: word i is their bytes from 16 * i on. Only aligned words that hold at least one of
/// the bytes are read; what a word has behind the last byte is unspecified. A word is read in two steps, so that others
/// can be on their way meanwhile.
class Words {
 public:
  WDELTA_DEVICE Words(const void* bytes, std::uint32_t size_bytes)
      : skew_(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(bytes) % k_word_bytes)),
        end_(size_bytes + skew_),
        aligned_(static_cast<const unsigned char*>(bytes) - skew_) {}

  /// The aligned word that word i begins in; i is below count().
  WDELTA_DEVICE Word begin(std::uint32_t i) const { return load_word(aligned_ + std::size_t{i} * k_word_bytes); }
  /// The word, from what begin() gave. The rest of it lies in the aligned word that the next thread began with, most
  /// often: it comes from the first-level cache, and waits in no register until then.
  WDELTA_DEVICE Word finish(std::uint32_t i, const Word& begun) const {
    if (skew_ == 0) return begun;
    Word rest = {};
    if ((i + 1) * k_word_bytes < end_) rest = begin(i + 1);
    return joined(begun, rest, skew_);
  }
  WDELTA_DEVICE Word at(std::uint32_t i) const { return finish(i, begin(i)); }
  WDELTA_DEVICE std::uint32_t count() const { return (end_ - skew_ + k_word_bytes - 1) / k_word_bytes; }

 private:
  std::uint32_t skew_;
  std::uint32_t end_;
  const unsigned char* aligned_;
};

/// Element i of those in a word.
template <class T>
WDELTA_DEVICE T element_of(const Word& word, std::uint32_t i) {
  constexpr std::uint32_t per_half = 8 / sizeof(T);
  const std::uint32_t low = i < per_half ? word.part[0] : word.part[2];
  const std::uint32_t high = i < per_half ? word.part[1] : word.part[3];
  const std::uint64_t half = std::uint64_t{high} << 32 | low;
  return static_cast<T>(half >> (i % per_half * 8 * sizeof(T)));
}

/// Puts an element where a word has zeros; i is a constant.
template <class T>
WDELTA_DEVICE void put_element(Word& word, std::uint32_t i, T bits) {
  if constexpr (sizeof(T) == 8) {
    word.part[2 * i] = static_cast<std::uint32_t>(bits);
    word.part[2 * i + 1] = static_cast<std::uint32_t>(bits >> 32);
  } else {
    constexpr std::uint32_t per_part = 4 / sizeof(T);
    word.part[i / per_part] |= std::uint32_t{bits} << (i % per_part * 8 * sizeof(T));
  }
}

/// 1 in each of the two halves of `bits` that is not 0, in its lowest bit. Hopper and later have an instruction that
/// looks at halves (PTX ISA, min.u16x2).
WDELTA_DEVICE std::uint32_t nonzero_halves(std::uint32_t bits) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  std::uint32_t set;
  asm("min.u16x2 %0, %1, %2;" : "=r"(set) : "r"(bits), "r"(0x00010001U));
  return set;
#else
  return ((((bits & 0x7fff7fffU) + 0x7fff7fffU) | bits) & 0x80008000U) >> 15;
#endif
}

/// Bit i: element i of one word is not that of the other.
template <class T>
WDELTA_DEVICE std::uint32_t different_elements(const Word& one, const Word& other) {
  if constexpr (sizeof(T) == 2) {
    // Those at even places gather in the low half, the others in the high one, each at every second bit.
    std::uint32_t apart = 0;
    WDELTA_UNROLL
    for (int i = 0; i < 4; ++i) apart += nonzero_halves(one.part[i] ^ other.part[i]) << (2 * i);
    return (apart | apart >> 15) & 0xffU;
  }
  std::uint32_t bits = 0;
  WDELTA_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t x = one.part[i] ^ other.part[i];
    if constexpr (sizeof(T) == 1) {
      // The highest bit of each byte that is not 0; the product brings the four together.
      const std::uint32_t set = ((((x & 0x7f7f7f7fU) + 0x7f7f7f7fU) | x) & 0x80808080U) >> 7;
      bits |= (set * 0x01020408U >> 24 & 0xfU) << (4 * i);
    } else if constexpr (sizeof(T) == 4) {
      bits |= (x != 0 ? 1U : 0U) << i;
    } else {
      bits |= (x != 0 ? 1U : 0U) << (i / 2);
    }
  }
  return bits;
}

WDELTA_DEVICE std::uint32_t bits_set(std::uint32_t bits) {
#if defined(__CUDACC__)
  return static_cast<std::uint32_t>(__popc(bits));
#else
  return static_cast<std::uint32_t>(__builtin_popcount(bits));
#endif
}

/// `bits` is not 0.
WDELTA_DEVICE std::uint32_t lowest_bit(std::uint32_t bits) {
#if defined(__CUDACC__)
  return static_cast<std::uint32_t>(__ffs(static_cast<int>(bits)) - 1);
#else
  return static_cast<std::uint32_t>(__builtin_ctz(bits));
#endif
}

}  // namespace wdelta::cuda
