// SPDX-License-Identifier: Apache-2.0
// The intrinsics of AVX-512 that the engine's kernels use, in plain C++: with this folder before the system's in the
// include path, the kernels compile for a processor with AVX2, and do there what they do with AVX-512. What each
// returns follows the Operation sections of Intel's Software Developer's Manual, volume 2; intrinsics.cpp holds them to
// a processor that has them.
//
// They stand in the kernels' namespace, where they hide those of the compiler. Masked loads and stores touch no byte of
// a lane whose bit is not set, so that a sanitizer sees what an AVX-512 processor would.
#pragma once
#pragma GCC system_header
#include_next <immintrin.h>
#undef _mm512_setr_epi32
#undef _mm512_setr_epi64
#define _MM_PERM_CDAB 0xb1  // whose own type would bring the compiler's intrinsics back

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>

namespace wdelta {
namespace {

// A register as lanes of L, the lowest first, and back.
template <class L, class V>
std::array<L, sizeof(V) / sizeof(L)> lanes_of(V vector) {
  return std::bit_cast<std::array<L, sizeof(V) / sizeof(L)>>(vector);
}
template <class V, class Lanes>
V vector_of(const Lanes& lanes) {
  static_assert(sizeof(V) == sizeof(Lanes));
  return std::bit_cast<V>(lanes);
}

/// op(i): lane `i` of the result.
template <class V, class L, class Op>
V made(Op op) {
  std::array<L, sizeof(V) / sizeof(L)> lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<L>(op(i));
  return vector_of<V>(lanes);
}
template <class L, class V, class Op>
V each(V a, Op op) {
  const auto in = lanes_of<L>(a);
  return made<V, L>([&](std::size_t i) { return op(in[i]); });
}
template <class L, class V, class Op>
V each(V a, V b, Op op) {
  const auto in = lanes_of<L>(a);
  const auto with = lanes_of<L>(b);
  return made<V, L>([&](std::size_t i) { return op(in[i], with[i]); });
}
/// The lanes where the mask has a bit of `then`, the others of `otherwise`.
template <class L, class V>
V masked(V otherwise, std::uint64_t mask, V then) {
  const auto from = lanes_of<L>(otherwise);
  const auto to = lanes_of<L>(then);
  return made<V, L>([&](std::size_t i) { return (mask >> i & 1) != 0 ? to[i] : from[i]; });
}
template <class L, class V>
V zeroed(std::uint64_t mask, V then) {
  return masked<L>(V{}, mask, then);
}
/// A bit for each lane that test() holds for.
template <class L, class V, class Test>
std::uint64_t mask_of(V a, V b, Test test) {
  const auto in = lanes_of<L>(a);
  const auto with = lanes_of<L>(b);
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < in.size(); ++i) mask |= static_cast<std::uint64_t>(test(in[i], with[i])) << i;
  return mask;
}
/// The low bits of each lane of A, as lanes of L; what is above them in the result is zero.
template <class V, class L, class A, class From>
V narrowed(From from) {
  const auto in = lanes_of<A>(from);
  return made<V, L>([&](std::size_t i) { return i < in.size() ? static_cast<L>(in[i]) : L{0}; });
}
/// Each of the lowest lanes of L, with zeros above it, as a lane of W.
template <class V, class W, class L, class From>
V widened(From from) {
  const auto in = lanes_of<L>(from);
  return made<V, W>([&](std::size_t i) { return in[i]; });
}
/// Reads the lanes that the mask names, and nothing else.
template <class V, class L>
V loaded(V otherwise, std::uint64_t mask, const void* from) {
  auto lanes = lanes_of<L>(otherwise);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if ((mask >> i & 1) != 0) std::memcpy(&lanes[i], static_cast<const char*>(from) + i * sizeof(L), sizeof(L));
  }
  return vector_of<V>(lanes);
}
/// Writes the lanes that the mask names, and nothing else.
template <class L, class V>
void stored(void* to, std::uint64_t mask, V vector) {
  const auto lanes = lanes_of<L>(vector);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if ((mask >> i & 1) != 0) std::memcpy(static_cast<char*>(to) + i * sizeof(L), &lanes[i], sizeof(L));
  }
}
/// The lanes that the mask names, side by side from the lowest on, and zeros.
template <class L, class V>
V compressed(std::uint64_t mask, V vector) {
  const auto in = lanes_of<L>(vector);
  std::array<L, sizeof(V) / sizeof(L)> out{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if ((mask >> i & 1) != 0) out[count++] = in[i];
  }
  return vector_of<V>(out);
}
/// For each lane one of `a` and, where the index goes on behind these, of `b`.
template <class L>
__m512i picked(__m512i a, __m512i indices, __m512i b) {
  const auto low = lanes_of<L>(a);
  const auto high = lanes_of<L>(b);
  const auto index = lanes_of<L>(indices);
  constexpr std::size_t count = 64 / sizeof(L);
  return made<__m512i, L>(
      [&](std::size_t i) { return ((index[i] & count) != 0 ? high : low)[index[i] & (count - 1)]; });
}
/// Lane `i` of the result is lane source(i), counted through `a`, then `b`.
template <class L, class V, class Source>
V arranged(V a, V b, Source source) {
  const auto first = lanes_of<L>(a);
  const auto second = lanes_of<L>(b);
  return made<V, L>([&](std::size_t i) {
    const std::size_t from = source(i);
    return from < first.size() ? first[from] : second[from - first.size()];
  });
}
/// Bit by bit what the table has for the three bits, a's the highest.
template <class V>
V by_table(V a, V b, V c, int table) {
  const auto x = lanes_of<std::uint64_t>(a);
  const auto y = lanes_of<std::uint64_t>(b);
  const auto z = lanes_of<std::uint64_t>(c);
  return made<V, std::uint64_t>([&](std::size_t i) {
    std::uint64_t out = 0;
    for (int row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      out |= ((row & 4) != 0 ? x[i] : ~x[i]) & ((row & 2) != 0 ? y[i] : ~y[i]) & ((row & 1) != 0 ? z[i] : ~z[i]);
    }
    return out;
  });
}
template <class L>
L shifted_left(L lane, std::uint64_t by) {
  return by < 8 * sizeof(L) ? static_cast<L>(lane << by) : L{0};
}
template <class L>
L shifted_right(L lane, std::uint64_t by) {
  return by < 8 * sizeof(L) ? static_cast<L>(lane >> by) : L{0};
}

using U8 = std::uint8_t;
using U16 = std::uint16_t;
using U32 = std::uint32_t;
using U64 = std::uint64_t;

// Registers as a whole.
inline __m512i _mm512_setzero_si512() { return __m512i{}; }
inline __m512i _mm512_set1_epi8(char a) {
  return made<__m512i, U8>([&](std::size_t) { return a; });
}
inline __m512i _mm512_set1_epi16(short a) {
  return made<__m512i, U16>([&](std::size_t) { return a; });
}
inline __m512i _mm512_set1_epi32(int a) {
  return made<__m512i, U32>([&](std::size_t) { return a; });
}
inline __m512i _mm512_set1_epi64(long long a) {
  return made<__m512i, U64>([&](std::size_t) { return a; });
}
inline __m512i _mm512_setr_epi64(long long a, long long b, long long c, long long d, long long e, long long f,
                                 long long g, long long h) {
  return vector_of<__m512i>(std::array<long long, 8>{a, b, c, d, e, f, g, h});
}
inline __m512i _mm512_set_epi64(long long h, long long g, long long f, long long e, long long d, long long c,
                                long long b, long long a) {
  return _mm512_setr_epi64(a, b, c, d, e, f, g, h);
}
inline __m512i _mm512_set4_epi64(long long d, long long c, long long b, long long a) {
  return _mm512_setr_epi64(a, b, c, d, a, b, c, d);
}
inline __m512i _mm512_setr_epi32(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l,
                                 int m, int n, int o, int p) {
  return vector_of<__m512i>(std::array<int, 16>{a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p});
}
inline __m512i _mm512_set4_epi32(int d, int c, int b, int a) {
  return _mm512_setr_epi32(a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d);
}
inline __m512i _mm512_castsi256_si512(__m256i a) {
  return made<__m512i, U64>([in = lanes_of<U64>(a)](std::size_t i) { return i < 4 ? in[i] : 0; });
}
inline __m256i _mm512_castsi512_si256(__m512i a) {
  return made<__m256i, U64>([in = lanes_of<U64>(a)](std::size_t i) { return in[i]; });
}

// Memory.
inline __m512i _mm512_loadu_si512(const void* from) {
  __m512i vector;
  std::memcpy(&vector, from, 64);
  return vector;
}
inline void _mm512_storeu_si512(void* to, __m512i a) { std::memcpy(to, &a, 64); }
// These die, as vmovdqa64 does, where the address is not one of 64 bytes.
inline __m512i _mm512_load_si512(const void* from) {
  if (reinterpret_cast<std::uintptr_t>(from) % 64 != 0) __builtin_trap();
  return _mm512_loadu_si512(from);
}
inline void _mm512_store_si512(void* to, __m512i a) {
  if (reinterpret_cast<std::uintptr_t>(to) % 64 != 0) __builtin_trap();
  _mm512_storeu_si512(to, a);
}
inline __m512i _mm512_maskz_loadu_epi8(__mmask64 k, const void* from) {
  return loaded<__m512i, U8>(__m512i{}, k, from);
}
inline __m512i _mm512_maskz_loadu_epi16(__mmask32 k, const void* from) {
  return loaded<__m512i, U16>(__m512i{}, k, from);
}
inline __m512i _mm512_maskz_loadu_epi32(__mmask16 k, const void* from) {
  return loaded<__m512i, U32>(__m512i{}, k, from);
}
inline __m512i _mm512_maskz_loadu_epi64(__mmask8 k, const void* from) {
  return loaded<__m512i, U64>(__m512i{}, k, from);
}
inline __m512i _mm512_mask_loadu_epi16(__m512i otherwise, __mmask32 k, const void* from) {
  return loaded<__m512i, U16>(otherwise, k, from);
}
inline __m256i _mm256_maskz_loadu_epi8(__mmask32 k, const void* from) {
  return loaded<__m256i, U8>(__m256i{}, k, from);
}
inline __m256i _mm256_maskz_loadu_epi16(__mmask16 k, const void* from) {
  return loaded<__m256i, U16>(__m256i{}, k, from);
}
inline __m128i _mm_maskz_loadu_epi8(__mmask16 k, const void* from) { return loaded<__m128i, U8>(__m128i{}, k, from); }
inline void _mm512_mask_storeu_epi8(void* to, __mmask64 k, __m512i a) { stored<U8>(to, k, a); }
inline void _mm512_mask_storeu_epi16(void* to, __mmask32 k, __m512i a) { stored<U16>(to, k, a); }
inline void _mm_mask_storeu_epi8(void* to, __mmask16 k, __m128i a) { stored<U8>(to, k, a); }

// Bits.
inline __m512i _mm512_and_si512(__m512i a, __m512i b) { return a & b; }
inline __m512i _mm512_or_si512(__m512i a, __m512i b) { return a | b; }
inline __m512i _mm512_xor_si512(__m512i a, __m512i b) { return a ^ b; }
inline __m512i _mm512_andnot_si512(__m512i a, __m512i b) { return ~a & b; }
inline __m512i _mm512_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int table) {
  return by_table(a, b, c, table);
}
inline __m512i _mm512_ternarylogic_epi64(__m512i a, __m512i b, __m512i c, int table) {
  return by_table(a, b, c, table);
}
inline __m256i _mm256_ternarylogic_epi32(__m256i a, __m256i b, __m256i c, int table) {
  return by_table(a, b, c, table);
}
inline __m512i _mm512_popcnt_epi64(__m512i a) {
  return each<U64>(a, [](U64 lane) { return std::popcount(lane); });
}
inline __m512i _mm512_lzcnt_epi32(__m512i a) {
  return each<U32>(a, [](U32 lane) { return std::countl_zero(lane); });
}
// gf2p8affineqb: of each byte of `a` the product with the matrix in its eight bytes of `matrices`, whose first row is
// the last of these; and `flips`.
inline __m512i _mm512_gf2p8affine_epi64_epi8(__m512i a, __m512i matrices, int flips) {
  const auto bytes = lanes_of<U8>(a);
  const auto rows = lanes_of<U8>(matrices);
  return made<__m512i, U8>([&](std::size_t i) {
    unsigned out = 0;
    for (unsigned bit = 0; bit < 8; ++bit) {
      const auto common = static_cast<U8>(bytes[i] & rows[i / 8 * 8 + 7 - bit]);
      out |= static_cast<unsigned>(std::popcount(common) & 1) << bit;
    }
    return out ^ static_cast<unsigned>(flips);
  });
}
inline __m512i _mm512_mask_gf2p8affine_epi64_epi8(__m512i otherwise, __mmask64 k, __m512i a, __m512i matrices,
                                                  int flips) {
  return masked<U8>(otherwise, k, _mm512_gf2p8affine_epi64_epi8(a, matrices, flips));
}

// Shifts: what is shifted out altogether is zero, or all signs.
inline __m512i _mm512_slli_epi16(__m512i a, unsigned by) {
  return each<U16>(a, [&](U16 lane) { return shifted_left(lane, by); });
}
inline __m512i _mm512_slli_epi32(__m512i a, unsigned by) {
  return each<U32>(a, [&](U32 lane) { return shifted_left(lane, by); });
}
inline __m512i _mm512_slli_epi64(__m512i a, unsigned by) {
  return each<U64>(a, [&](U64 lane) { return shifted_left(lane, by); });
}
inline __m512i _mm512_srli_epi16(__m512i a, unsigned by) {
  return each<U16>(a, [&](U16 lane) { return shifted_right(lane, by); });
}
inline __m512i _mm512_srli_epi32(__m512i a, unsigned by) {
  return each<U32>(a, [&](U32 lane) { return shifted_right(lane, by); });
}
inline __m512i _mm512_srli_epi64(__m512i a, unsigned by) {
  return each<U64>(a, [&](U64 lane) { return shifted_right(lane, by); });
}
inline __m512i _mm512_srl_epi64(__m512i a, __m128i by) {
  return each<U64>(a, [by = lanes_of<U64>(by)[0]](U64 lane) { return shifted_right(lane, by); });
}
inline __m512i _mm512_srai_epi16(__m512i a, unsigned by) {
  return each<U16>(a, [&](U16 lane) { return static_cast<std::int16_t>(lane) >> std::min(by, 15U); });
}
inline __m512i _mm512_sllv_epi32(__m512i a, __m512i by) { return each<U32>(a, by, shifted_left<U32>); }
inline __m512i _mm512_srlv_epi32(__m512i a, __m512i by) { return each<U32>(a, by, shifted_right<U32>); }
inline __m512i _mm512_maskz_sllv_epi32(__mmask16 k, __m512i a, __m512i by) {
  return zeroed<U32>(k, each<U32>(a, by, shifted_left<U32>));
}
inline __m512i _mm512_maskz_srlv_epi32(__mmask16 k, __m512i a, __m512i by) {
  return zeroed<U32>(k, each<U32>(a, by, shifted_right<U32>));
}
inline __m512i _mm512_maskz_sllv_epi64(__mmask8 k, __m512i a, __m512i by) {
  return zeroed<U64>(k, each<U64>(a, by, shifted_left<U64>));
}
inline __m512i _mm512_maskz_srlv_epi64(__mmask8 k, __m512i a, __m512i by) {
  return zeroed<U64>(k, each<U64>(a, by, shifted_right<U64>));
}
inline __m256i _mm256_mask_slli_epi32(__m256i otherwise, __mmask8 k, __m256i a, unsigned by) {
  return masked<U32>(otherwise, k, each<U32>(a, [&](U32 lane) { return shifted_left(lane, by); }));
}

// Sums and products.
inline __m512i _mm512_add_epi8(__m512i a, __m512i b) { return each<U8>(a, b, std::plus<>()); }
inline __m512i _mm512_add_epi16(__m512i a, __m512i b) { return each<U16>(a, b, std::plus<>()); }
inline __m512i _mm512_add_epi32(__m512i a, __m512i b) { return each<U32>(a, b, std::plus<>()); }
inline __m512i _mm512_add_epi64(__m512i a, __m512i b) { return each<U64>(a, b, std::plus<>()); }
inline __m512i _mm512_sub_epi16(__m512i a, __m512i b) { return each<U16>(a, b, std::minus<>()); }
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) { return each<U32>(a, b, std::minus<>()); }
inline __m512i _mm512_subs_epu8(__m512i a, __m512i b) {
  return each<U8>(a, b, [](U8 x, U8 y) { return x > y ? x - y : 0; });
}
inline __m512i _mm512_mask_add_epi8(__m512i otherwise, __mmask64 k, __m512i a, __m512i b) {
  return masked<U8>(otherwise, k, _mm512_add_epi8(a, b));
}
inline __m512i _mm512_mask_add_epi16(__m512i otherwise, __mmask32 k, __m512i a, __m512i b) {
  return masked<U16>(otherwise, k, _mm512_add_epi16(a, b));
}
inline __m512i _mm512_maskz_add_epi32(__mmask16 k, __m512i a, __m512i b) {
  return zeroed<U32>(k, _mm512_add_epi32(a, b));
}
inline long long _mm512_reduce_add_epi64(__m512i a) {
  U64 sum = 0;
  for (const U64 lane : lanes_of<U64>(a)) sum += lane;
  return static_cast<long long>(sum);
}
inline __m512i _mm512_mullo_epi32(__m512i a, __m512i b) { return each<U32>(a, b, std::multiplies<>()); }
inline __m512i _mm512_mul_epu32(__m512i a, __m512i b) {
  return each<U64>(a, b, [](U64 x, U64 y) { return (x & 0xffffffff) * (y & 0xffffffff); });
}
// vpmadd52luq, vpmadd52huq: 52 bits of a product of 52 bits each, added in 64.
inline __m512i products_of_52_bits(__m512i sums, __m512i a, __m512i b, unsigned shift) {
  constexpr U64 k_52_bits = (1ULL << 52) - 1;
  const __m512i products = each<U64>(a, b, [&](U64 x, U64 y) {
    return static_cast<U64>(static_cast<unsigned __int128>(x & k_52_bits) * (y & k_52_bits) >> shift) & k_52_bits;
  });
  return _mm512_add_epi64(sums, products);
}
inline __m512i _mm512_madd52lo_epu64(__m512i sums, __m512i a, __m512i b) { return products_of_52_bits(sums, a, b, 0); }
inline __m512i _mm512_madd52hi_epu64(__m512i sums, __m512i a, __m512i b) { return products_of_52_bits(sums, a, b, 52); }
inline __m512i _mm512_min_epu8(__m512i a, __m512i b) {
  return each<U8>(a, b, [](U8 x, U8 y) { return std::min(x, y); });
}
inline __m512i _mm512_min_epu16(__m512i a, __m512i b) {
  return each<U16>(a, b, [](U16 x, U16 y) { return std::min(x, y); });
}
inline __m512i _mm512_min_epu32(__m512i a, __m512i b) {
  return each<U32>(a, b, [](U32 x, U32 y) { return std::min(x, y); });
}
inline __m512i _mm512_max_epu32(__m512i a, __m512i b) {
  return each<U32>(a, b, [](U32 x, U32 y) { return std::max(x, y); });
}
inline __m512i _mm512_maskz_max_epu32(__mmask16 k, __m512i a, __m512i b) {
  return zeroed<U32>(k, _mm512_max_epu32(a, b));
}

// Masks.
inline __mmask64 _mm512_cmpneq_epi8_mask(__m512i a, __m512i b) { return mask_of<U8>(a, b, std::not_equal_to<>()); }
inline __mmask32 _mm512_cmpneq_epi16_mask(__m512i a, __m512i b) {
  return static_cast<__mmask32>(mask_of<U16>(a, b, std::not_equal_to<>()));
}
inline __mmask16 _mm512_cmpneq_epi32_mask(__m512i a, __m512i b) {
  return static_cast<__mmask16>(mask_of<U32>(a, b, std::not_equal_to<>()));
}
inline __mmask8 _mm512_cmpneq_epi64_mask(__m512i a, __m512i b) {
  return static_cast<__mmask8>(mask_of<U64>(a, b, std::not_equal_to<>()));
}
inline __mmask16 _mm512_mask_cmpneq_epi32_mask(__mmask16 k, __m512i a, __m512i b) {
  return static_cast<__mmask16>(k & _mm512_cmpneq_epi32_mask(a, b));
}
inline __mmask64 _mm512_mask_cmpeq_epi8_mask(__mmask64 k, __m512i a, __m512i b) {
  return k & mask_of<U8>(a, b, std::equal_to<>());
}
inline __mmask64 _mm512_cmpge_epu8_mask(__m512i a, __m512i b) { return mask_of<U8>(a, b, std::greater_equal<>()); }
inline __mmask64 _mm512_mask_cmplt_epu8_mask(__mmask64 k, __m512i a, __m512i b) {
  return k & mask_of<U8>(a, b, std::less<>());
}
inline __mmask32 _mm512_mask_cmplt_epu16_mask(__mmask32 k, __m512i a, __m512i b) {
  return k & static_cast<__mmask32>(mask_of<U16>(a, b, std::less<>()));
}
inline __mmask16 _mm512_cmpgt_epu32_mask(__m512i a, __m512i b) {
  return static_cast<__mmask16>(mask_of<U32>(a, b, std::greater<>()));
}
inline __mmask16 _mm512_mask_cmpgt_epu32_mask(__mmask16 k, __m512i a, __m512i b) {
  return static_cast<__mmask16>(k & _mm512_cmpgt_epu32_mask(a, b));
}
inline __mmask8 _mm512_cmpgt_epu64_mask(__m512i a, __m512i b) {
  return static_cast<__mmask8>(mask_of<U64>(a, b, std::greater<>()));
}
inline __mmask8 _mm256_cmplt_epu32_mask(__m256i a, __m256i b) {
  return static_cast<__mmask8>(mask_of<U32>(a, b, std::less<>()));
}
inline __mmask64 _mm512_test_epi8_mask(__m512i a, __m512i b) {
  return mask_of<U8>(a, b, [](U8 x, U8 y) { return (x & y) != 0; });
}
inline __mmask32 _mm512_test_epi16_mask(__m512i a, __m512i b) {
  return static_cast<__mmask32>(mask_of<U16>(a, b, [](U16 x, U16 y) { return (x & y) != 0; }));
}
inline __mmask16 _mm512_test_epi32_mask(__m512i a, __m512i b) {
  return static_cast<__mmask16>(mask_of<U32>(a, b, [](U32 x, U32 y) { return (x & y) != 0; }));
}
inline __mmask8 _mm512_test_epi64_mask(__m512i a, __m512i b) {
  return static_cast<__mmask8>(mask_of<U64>(a, b, [](U64 x, U64 y) { return (x & y) != 0; }));
}
inline __mmask32 _mm256_test_epi8_mask(__m256i a, __m256i b) {
  return static_cast<__mmask32>(mask_of<U8>(a, b, [](U8 x, U8 y) { return (x & y) != 0; }));
}
inline __mmask64 _mm512_movepi8_mask(__m512i a) {
  return mask_of<U8>(a, a, [](U8 x, U8) { return x >> 7; });
}
inline __m512i _mm512_mask_mov_epi8(__m512i otherwise, __mmask64 k, __m512i a) { return masked<U8>(otherwise, k, a); }
inline __m512i _mm512_mask_mov_epi32(__m512i otherwise, __mmask16 k, __m512i a) { return masked<U32>(otherwise, k, a); }
inline __m512i _mm512_maskz_compress_epi8(__mmask64 k, __m512i a) { return compressed<U8>(k, a); }
inline __m512i _mm512_maskz_compress_epi16(__mmask32 k, __m512i a) { return compressed<U16>(k, a); }
inline __m512i _mm512_maskz_compress_epi32(__mmask16 k, __m512i a) { return compressed<U32>(k, a); }
inline __m512i _mm512_maskz_compress_epi64(__mmask8 k, __m512i a) { return compressed<U64>(k, a); }
inline __m256i _mm256_maskz_expand_epi32(__mmask8 k, __m256i a) {
  std::size_t count = 0;
  return made<__m256i, U32>([&, in = lanes_of<U32>(a)](std::size_t i) { return (k >> i & 1) != 0 ? in[count++] : 0; });
}

// Other widths.
inline __m512i _mm512_cvtepu8_epi16(__m256i a) { return widened<__m512i, U16, U8>(a); }
inline __m512i _mm512_cvtepu8_epi32(__m128i a) { return widened<__m512i, U32, U8>(a); }
inline __m512i _mm512_maskz_cvtepu8_epi32(__mmask16 k, __m128i a) {
  return zeroed<U32>(k, widened<__m512i, U32, U8>(a));
}
inline __m512i _mm512_maskz_cvtepu16_epi32(__mmask16 k, __m256i a) {
  return zeroed<U32>(k, widened<__m512i, U32, U16>(a));
}
inline __m512i _mm512_maskz_cvtepu32_epi64(__mmask8 k, __m256i a) {
  return zeroed<U64>(k, widened<__m512i, U64, U32>(a));
}
inline __m128i _mm512_maskz_cvtepi32_epi8(__mmask16 k, __m512i a) {
  return narrowed<__m128i, U8, U32>(zeroed<U32>(k, a));
}
inline __m256i _mm512_maskz_cvtepi32_epi16(__mmask16 k, __m512i a) {
  return narrowed<__m256i, U16, U32>(zeroed<U32>(k, a));
}
inline __m256i _mm512_maskz_cvtusepi32_epi16(__mmask16 k, __m512i a) {
  return _mm512_maskz_cvtepi32_epi16(k, _mm512_min_epu32(a, _mm512_set1_epi32(0xffff)));
}
inline __m128i _mm512_maskz_cvtepi64_epi16(__mmask8 k, __m512i a) {
  return narrowed<__m128i, U16, U64>(zeroed<U64>(k, a));
}
inline __m256i _mm512_maskz_cvtepi64_epi32(__mmask8 k, __m512i a) {
  return narrowed<__m256i, U32, U64>(zeroed<U64>(k, a));
}
inline __m128i _mm256_maskz_cvtepi32_epi8(__mmask8 k, __m256i a) {
  return narrowed<__m128i, U8, U32>(zeroed<U32>(k, a));
}

// Other places.
inline __m512i _mm512_permutexvar_epi8(__m512i indices, __m512i a) { return picked<U8>(a, indices, a); }
inline __m512i _mm512_permutexvar_epi16(__m512i indices, __m512i a) { return picked<U16>(a, indices, a); }
inline __m512i _mm512_maskz_permutexvar_epi8(__mmask64 k, __m512i indices, __m512i a) {
  return zeroed<U8>(k, picked<U8>(a, indices, a));
}
inline __m512i _mm512_permutex2var_epi8(__m512i a, __m512i indices, __m512i b) { return picked<U8>(a, indices, b); }
inline __m512i _mm512_permutex2var_epi16(__m512i a, __m512i indices, __m512i b) { return picked<U16>(a, indices, b); }
inline __m512i _mm512_permutex2var_epi64(__m512i a, __m512i indices, __m512i b) { return picked<U64>(a, indices, b); }
inline __m512i _mm512_shuffle_epi8(__m512i a, __m512i indices) {
  const auto in = lanes_of<U8>(a);
  const auto index = lanes_of<U8>(indices);
  return made<__m512i, U8>(
      [&](std::size_t i) { return (index[i] & 0x80) != 0 ? U8{0} : in[i / 16 * 16 + (index[i] & 15)]; });
}
// Of each 128 bits, or of each 256, four lanes by two bits each.
inline __m512i _mm512_maskz_shuffle_epi32(__mmask16 k, __m512i a, int order) {
  return zeroed<U32>(k, arranged<U32>(a, a, [&](std::size_t i) { return i / 4 * 4 + (order >> 2 * (i % 4) & 3); }));
}
inline __m512i _mm512_maskz_permutex_epi64(__mmask8 k, __m512i a, int order) {
  return zeroed<U64>(k, arranged<U64>(a, a, [&](std::size_t i) { return i / 4 * 4 + (order >> 2 * (i % 4) & 3); }));
}
// Two times 128 bits of `a`, then two of `b`.
inline __m512i _mm512_shuffle_i64x2(__m512i a, __m512i b, int order) {
  return arranged<U64>(a, b, [&](std::size_t i) { return (i < 4 ? 0 : 8) + 2 * (order >> 2 * (i / 2) & 3) + i % 2; });
}
// `b`, then `a`, from lane `by` on.
inline __m512i _mm512_alignr_epi32(__m512i a, __m512i b, int by) {
  return arranged<U32>(b, a, [&](std::size_t i) { return i + static_cast<std::size_t>(by); });
}
inline __m512i _mm512_alignr_epi64(__m512i a, __m512i b, int by) {
  return arranged<U64>(b, a, [&](std::size_t i) { return i + static_cast<std::size_t>(by); });
}
inline __m512i _mm512_maskz_alignr_epi32(__mmask16 k, __m512i a, __m512i b, int by) {
  return zeroed<U32>(k, _mm512_alignr_epi32(a, b, by));
}
inline __m128i _mm512_extracti32x4_epi32(__m512i a, int which) {
  return made<__m128i, U64>(
      [&, in = lanes_of<U64>(a)](std::size_t i) { return in[2 * static_cast<unsigned>(which) + i]; });
}
inline __m128i _mm512_maskz_extracti32x4_epi32(__mmask8 k, __m512i a, int which) {
  return zeroed<U32>(k, _mm512_extracti32x4_epi32(a, which));
}
inline __m256i _mm512_extracti64x4_epi64(__m512i a, int which) {
  return made<__m256i, U64>(
      [&, in = lanes_of<U64>(a)](std::size_t i) { return in[4 * static_cast<unsigned>(which) + i]; });
}
inline __m256i _mm512_maskz_extracti64x4_epi64(__mmask8 k, __m512i a, int which) {
  return zeroed<U64>(k, _mm512_extracti64x4_epi64(a, which));
}
inline __m512i _mm512_maskz_inserti64x4(__mmask8 k, __m512i a, __m256i b, int which) {
  const auto in = lanes_of<U64>(b);
  return zeroed<U64>(k, made<__m512i, U64>([&, all = lanes_of<U64>(a)](std::size_t i) {
                       return i / 4 == static_cast<unsigned>(which) ? in[i % 4] : all[i];
                     }));
}

}  // namespace
}  // namespace wdelta
