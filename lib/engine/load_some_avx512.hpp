// SPDX-License-Identifier: Apache-2.0
// Up to sixteen numbers of 1, 2 or 4 bytes into lanes of 4, zeros where there are none, with AVX-512; for kernel files
// alone, each of which gets a copy of its own.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace wdelta {
namespace {

[[maybe_unused]] __m512i load_some(__mmask16 there, const std::uint8_t* numbers) {
  return _mm512_maskz_cvtepu8_epi32(0xffff, _mm_maskz_loadu_epi8(there, numbers));
}
[[maybe_unused]] __m512i load_some(__mmask16 there, const std::uint16_t* numbers) {
  return _mm512_maskz_cvtepu16_epi32(0xffff, _mm256_maskz_loadu_epi16(there, numbers));
}
[[maybe_unused]] __m512i load_some(__mmask16 there, const std::uint32_t* numbers) {
  return _mm512_maskz_loadu_epi32(there, numbers);
}

}  // namespace
}  // namespace wdelta
