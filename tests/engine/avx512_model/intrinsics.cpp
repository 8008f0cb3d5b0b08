// SPDX-License-Identifier: Apache-2.0
// Each intrinsic of the model beside the compiler's, on a processor that has the instruction.
#include "engine/avx512_model/intrinsics.hpp"

#include <cstdio>
#include <immintrin.h>  // the model's, and behind it the compiler's
#include <random>
#include <set>
#include <string>

namespace wdelta::testing {
namespace {

class Comparison {
 public:
  template <class Result>
  void same(const char* name, const Result& processor, const Result& model) {
    if (std::memcmp(&processor, &model, sizeof(Result)) != 0) wrong.insert(name);
  }
  std::set<std::string> wrong;
};

/// Of random bits, of few, of small numbers, and with lanes that repeat another's, so that comparisons hold now and
/// then.
template <class V>
V random_vector(std::mt19937_64& random, const V& other) {
  auto lanes = lanes_of<std::uint64_t>(V{});
  const auto others = lanes_of<std::uint64_t>(other);
  const unsigned kind = random() % 4;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::uint64_t bits = random();
    lanes[i] = kind == 0   ? bits
               : kind == 1 ? bits & random() & random()
               : kind == 2 ? bits & 0x003f003f003f003f
                           : others[i] ^ (bits & random() & random() & random());
  }
  V vector = vector_of<V>(lanes);
  asm volatile("" : "+v"(vector));  // the compiler shall not reckon it itself
  return vector;
}

#define SAME(name, ...) comparison.same(#name, ::name(__VA_ARGS__), wdelta::name(__VA_ARGS__))

void compare_registers(Comparison& comparison, std::mt19937_64& random) {
  const auto bits = static_cast<long long>(random());
  SAME(_mm512_set1_epi8, static_cast<char>(bits));
  SAME(_mm512_set1_epi16, static_cast<short>(bits));
  SAME(_mm512_set1_epi32, static_cast<int>(bits));
  SAME(_mm512_set1_epi64, bits);
  SAME(_mm512_set_epi64, bits, 2, 3, 4, 5, 6, 7, 8);
  SAME(_mm512_set4_epi64, bits, 2, 3, 4);
  SAME(_mm512_set4_epi32, static_cast<int>(bits), 2, 3, 4);
}

void compare_memory(Comparison& comparison, __mmask64 k, __m512i a, __m512i b) {
  const auto k32 = static_cast<__mmask32>(k);
  const auto k16 = static_cast<__mmask16>(k);
  SAME(_mm512_loadu_si512, &a);
  SAME(_mm512_maskz_loadu_epi8, k, &a);
  SAME(_mm512_maskz_loadu_epi16, k32, &a);
  SAME(_mm512_maskz_loadu_epi32, k16, &a);
  SAME(_mm512_maskz_loadu_epi64, static_cast<__mmask8>(k), &a);
  SAME(_mm512_mask_loadu_epi16, b, k32, &a);
  SAME(_mm256_maskz_loadu_epi8, k32, &a);
  SAME(_mm256_maskz_loadu_epi16, k16, &a);
  SAME(_mm_maskz_loadu_epi8, k16, &a);
  const auto stored = [&](const char* name, auto processor, auto model) {
    __m512i by_processor = b;
    __m512i by_model = b;
    processor(&by_processor);
    model(&by_model);
    comparison.same(name, by_processor, by_model);
  };
#define STORES(name, ...) \
  stored(                 \
      #name, [&](void* to) { ::name(to, __VA_ARGS__); }, [&](void* to) { wdelta::name(to, __VA_ARGS__); })
  STORES(_mm512_storeu_si512, a);
  STORES(_mm512_mask_storeu_epi8, k, a);
  STORES(_mm512_mask_storeu_epi16, k32, a);
  STORES(_mm_mask_storeu_epi8, k16, ::_mm512_castsi512_si128(a));
#undef STORES
}

void compare_bits(Comparison& comparison, __mmask64 k, __m512i a, __m512i b, __m512i c) {
  SAME(_mm512_and_si512, a, b);
  SAME(_mm512_or_si512, a, b);
  SAME(_mm512_xor_si512, a, b);
  SAME(_mm512_andnot_si512, a, b);
  SAME(_mm512_ternarylogic_epi32, a, b, c, 0x96);
  SAME(_mm512_ternarylogic_epi64, a, b, c, 0xca);
  SAME(_mm512_ternarylogic_epi64, a, b, c, 0xf4);
  SAME(_mm512_ternarylogic_epi64, a, b, c, 0x03);
  SAME(_mm256_ternarylogic_epi32, ::_mm512_castsi512_si256(a), ::_mm512_castsi512_si256(b), ::_mm512_castsi512_si256(c),
       0xd8);
  SAME(_mm512_popcnt_epi64, a);
  SAME(_mm512_lzcnt_epi32, a);
  SAME(_mm512_gf2p8affine_epi64_epi8, a, b, 0);
  SAME(_mm512_gf2p8affine_epi64_epi8, a, b, 0x35);
  SAME(_mm512_mask_gf2p8affine_epi64_epi8, a, k, b, c, 0);
}

void compare_shifts(Comparison& comparison, __mmask64 k, __m512i a, __m512i by, unsigned count) {
  const auto k16 = static_cast<__mmask16>(k);
  const auto k8 = static_cast<__mmask8>(k);
  SAME(_mm512_slli_epi16, a, count);
  SAME(_mm512_slli_epi32, a, count);
  SAME(_mm512_slli_epi64, a, count);
  SAME(_mm512_srli_epi16, a, count);
  SAME(_mm512_srli_epi32, a, count);
  SAME(_mm512_srli_epi64, a, count);
  SAME(_mm512_srai_epi16, a, count);
  SAME(_mm512_srl_epi64, a, ::_mm_cvtsi32_si128(static_cast<int>(count)));
  SAME(_mm512_sllv_epi32, a, by);
  SAME(_mm512_srlv_epi32, a, by);
  SAME(_mm512_maskz_sllv_epi32, k16, a, by);
  SAME(_mm512_maskz_srlv_epi32, k16, a, by);
  SAME(_mm512_maskz_sllv_epi64, k8, a, by);
  SAME(_mm512_maskz_srlv_epi64, k8, a, by);
  SAME(_mm256_mask_slli_epi32, ::_mm512_castsi512_si256(by), k8, ::_mm512_castsi512_si256(a), count);
}

void compare_sums(Comparison& comparison, __mmask64 k, __m512i a, __m512i b, __m512i c) {
  const auto k32 = static_cast<__mmask32>(k);
  const auto k16 = static_cast<__mmask16>(k);
  SAME(_mm512_add_epi8, a, b);
  SAME(_mm512_add_epi16, a, b);
  SAME(_mm512_add_epi32, a, b);
  SAME(_mm512_add_epi64, a, b);
  SAME(_mm512_sub_epi16, a, b);
  SAME(_mm512_sub_epi32, a, b);
  SAME(_mm512_subs_epu8, a, b);
  SAME(_mm512_mask_add_epi8, c, k, a, b);
  SAME(_mm512_mask_add_epi16, c, k32, a, b);
  SAME(_mm512_maskz_add_epi32, k16, a, b);
  SAME(_mm512_reduce_add_epi64, a);
  SAME(_mm512_mullo_epi32, a, b);
  SAME(_mm512_mul_epu32, a, b);
  SAME(_mm512_madd52lo_epu64, a, b, c);
  SAME(_mm512_madd52hi_epu64, a, b, c);
  SAME(_mm512_min_epu8, a, b);
  SAME(_mm512_min_epu16, a, b);
  SAME(_mm512_min_epu32, a, b);
  SAME(_mm512_max_epu32, a, b);
  SAME(_mm512_maskz_max_epu32, k16, a, b);
}

void compare_masks(Comparison& comparison, __mmask64 k, __m512i a, __m512i b) {
  const auto k32 = static_cast<__mmask32>(k);
  const auto k16 = static_cast<__mmask16>(k);
  const auto k8 = static_cast<__mmask8>(k);
  SAME(_mm512_cmpneq_epi8_mask, a, b);
  SAME(_mm512_cmpneq_epi16_mask, a, b);
  SAME(_mm512_cmpneq_epi32_mask, a, b);
  SAME(_mm512_cmpneq_epi64_mask, a, b);
  SAME(_mm512_mask_cmpneq_epi32_mask, k16, a, b);
  SAME(_mm512_mask_cmpeq_epi8_mask, k, a, b);
  SAME(_mm512_cmpge_epu8_mask, a, b);
  SAME(_mm512_mask_cmplt_epu8_mask, k, a, b);
  SAME(_mm512_mask_cmplt_epu16_mask, k32, a, b);
  SAME(_mm512_cmpgt_epu32_mask, a, b);
  SAME(_mm512_mask_cmpgt_epu32_mask, k16, a, b);
  SAME(_mm512_cmpgt_epu64_mask, a, b);
  SAME(_mm256_cmplt_epu32_mask, ::_mm512_castsi512_si256(a), ::_mm512_castsi512_si256(b));
  SAME(_mm512_test_epi8_mask, a, b);
  SAME(_mm512_test_epi16_mask, a, b);
  SAME(_mm512_test_epi32_mask, a, b);
  SAME(_mm512_test_epi64_mask, a, b);
  SAME(_mm256_test_epi8_mask, ::_mm512_castsi512_si256(a), ::_mm512_castsi512_si256(b));
  SAME(_mm512_movepi8_mask, a);
  SAME(_mm512_mask_mov_epi8, a, k, b);
  SAME(_mm512_mask_mov_epi32, a, k16, b);
  SAME(_mm512_maskz_compress_epi8, k, a);
  SAME(_mm512_maskz_compress_epi16, k32, a);
  SAME(_mm512_maskz_compress_epi32, k16, a);
  SAME(_mm512_maskz_compress_epi64, k8, a);
  SAME(_mm256_maskz_expand_epi32, k8, ::_mm512_castsi512_si256(a));
}

void compare_widths(Comparison& comparison, __mmask64 k, __m512i a) {
  const auto k16 = static_cast<__mmask16>(k);
  const auto k8 = static_cast<__mmask8>(k);
  SAME(_mm512_cvtepu8_epi16, ::_mm512_castsi512_si256(a));
  SAME(_mm512_cvtepu8_epi32, ::_mm512_castsi512_si128(a));
  SAME(_mm512_maskz_cvtepu8_epi32, k16, ::_mm512_castsi512_si128(a));
  SAME(_mm512_maskz_cvtepu16_epi32, k16, ::_mm512_castsi512_si256(a));
  SAME(_mm512_maskz_cvtepu32_epi64, k8, ::_mm512_castsi512_si256(a));
  SAME(_mm512_maskz_cvtepi32_epi8, k16, a);
  SAME(_mm512_maskz_cvtepi32_epi16, k16, a);
  SAME(_mm512_maskz_cvtusepi32_epi16, k16, a);
  SAME(_mm512_maskz_cvtepi64_epi16, k8, a);
  SAME(_mm512_maskz_cvtepi64_epi32, k8, a);
  SAME(_mm256_maskz_cvtepi32_epi8, k8, ::_mm512_castsi512_si256(a));
}

void compare_places(Comparison& comparison, __mmask64 k, __m512i a, __m512i b, __m512i c) {
  const auto k16 = static_cast<__mmask16>(k);
  const auto k8 = static_cast<__mmask8>(k);
  SAME(_mm512_permutexvar_epi8, a, b);
  SAME(_mm512_permutexvar_epi16, a, b);
  SAME(_mm512_maskz_permutexvar_epi8, k, a, b);
  SAME(_mm512_permutex2var_epi8, a, b, c);
  SAME(_mm512_permutex2var_epi16, a, b, c);
  SAME(_mm512_permutex2var_epi64, a, b, c);
  SAME(_mm512_shuffle_epi8, a, b);
  comparison.same("_mm512_maskz_shuffle_epi32", ::_mm512_maskz_shuffle_epi32(k16, a, static_cast<_MM_PERM_ENUM>(0xb1)),
                  wdelta::_mm512_maskz_shuffle_epi32(k16, a, 0xb1));
  SAME(_mm512_maskz_permutex_epi64, k8, a, 0xb1);
  SAME(_mm512_maskz_permutex_epi64, k8, a, 0x4e);
  SAME(_mm512_shuffle_i64x2, a, b, 0x44);
  SAME(_mm512_shuffle_i64x2, a, b, 0xee);
  SAME(_mm512_alignr_epi32, a, b, 15);
  SAME(_mm512_alignr_epi64, a, b, 7);
  SAME(_mm512_alignr_epi64, a, b, 4);
  SAME(_mm512_maskz_alignr_epi32, k16, a, b, 12);
  SAME(_mm512_extracti32x4_epi32, a, 3);
  SAME(_mm512_maskz_extracti32x4_epi32, k8, a, 1);
  SAME(_mm512_extracti64x4_epi64, a, 1);
  SAME(_mm512_maskz_extracti64x4_epi64, k8, a, 1);
  SAME(_mm512_maskz_inserti64x4, k8, a, ::_mm512_castsi512_si256(b), 1);
  SAME(_mm512_castsi512_si256, a);
}

#undef SAME

}  // namespace

int wrong_intrinsics(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Comparison comparison;
  for (int round = 0; round < 2000; ++round) {
    const __m512i a = random_vector<__m512i>(random, __m512i{});
    const __m512i b = random_vector<__m512i>(random, a);
    const __m512i c = random_vector<__m512i>(random, b);
    const __mmask64 k = round % 7 == 0 ? ~0ULL : round % 7 == 1 ? random() & random() : random();
    compare_registers(comparison, random);
    compare_memory(comparison, k, a, b);
    compare_bits(comparison, k, a, b, c);
    compare_shifts(comparison, k, a, b, static_cast<unsigned>(random() % 70));
    compare_sums(comparison, k, a, b, c);
    compare_masks(comparison, k, a, b);
    compare_widths(comparison, k, a);
    compare_places(comparison, k, a, b, c);
  }
  for (const std::string& name : comparison.wrong)
    std::printf("%s: the model has another result than the processor\n", name.c_str());
  return static_cast<int>(comparison.wrong.size());
}

}  // namespace wdelta::testing
