// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx512.hpp"

#include "engine/decode_rounds.hpp"

namespace wdelta {
namespace {

struct Avx512 {
  static const std::uint8_t* decode(const std::uint32_t* slots, __m256i first_slots, __m256i& states,
                                    const std::uint8_t* words, std::uint8_t* symbols) {
    const __m256i in_tables =  // first_slots | (states & mask)
        _mm256_ternarylogic_epi32(first_slots, states, _mm256_set1_epi32(DecodeTable::k_slots - 1), 0xf8);
    const __m256i taken = slots_of(slots, in_tables);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(symbols),
                     _mm256_maskz_cvtepi32_epi8(0xff, _mm256_srli_epi32(taken, DecodeTable::k_symbol_shift)));
    const __m256i left = taken_from(states, taken);
    const __mmask8 needy = _mm256_cmplt_epu32_mask(left, _mm256_set1_epi32(1 << 15));
    const __m256i there = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    states = _mm256_or_si256(_mm256_mask_slli_epi32(left, needy, left, 16), _mm256_maskz_expand_epi32(needy, there));
    return words + 2U * static_cast<std::uint32_t>(__builtin_popcount(needy));
  }
};

}  // namespace

void decode_symbols_avx512(CodedPairs* streams, std::uint32_t stream_count) {
  decode_streams<Avx512>(streams, stream_count);
}

}  // namespace wdelta
