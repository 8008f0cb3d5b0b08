// SPDX-License-Identifier: Apache-2.0
// Eight numbers of 1, 2 or 4 bytes into lanes of 4, with AVX2; for kernel files alone, each of which gets a copy of its
// own.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace wdelta {
namespace {

[[maybe_unused]] __m256i load_eight(const std::uint8_t* numbers) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(numbers)));
}
[[maybe_unused]] __m256i load_eight(const std::uint16_t* numbers) {
  return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers)));
}
[[maybe_unused]] __m256i load_eight(const std::uint32_t* numbers) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(numbers));
}

}  // namespace
}  // namespace wdelta
