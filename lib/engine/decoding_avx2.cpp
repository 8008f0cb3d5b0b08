// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_avx2.hpp"

#include "engine/decode_rounds.hpp"

namespace wdelta {
namespace {

/// Which of the next words each of eight coders takes, by which need one.
struct NextWords {
  alignas(8) std::uint8_t of[256][8];
};
constexpr NextWords k_next_words = [] {
  NextWords next{};
  for (std::uint32_t mask = 0; mask < 256; ++mask) {
    std::uint8_t word = 0;
    for (std::uint32_t lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1) != 0) next.of[mask][lane] = word++;
    }
  }
  return next;
}();

struct Avx2 {
  static const std::uint8_t* decode(const std::uint32_t* slots, __m256i first_slots, __m256i& states,
                                    const std::uint8_t* words, std::uint8_t* symbols) {
    const __m256i in_table = _mm256_and_si256(states, _mm256_set1_epi32(DecodeTable::k_slots - 1));
    const __m256i taken = slots_of(slots, _mm256_or_si256(first_slots, in_table));
    const __m256i highest_bytes = _mm256_set1_epi32(0x0f0b0703);
    const __m256i fours = _mm256_shuffle_epi8(taken, highest_bytes);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(symbols),
                     _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1)));
    const __m256i left = taken_from(states, taken);
    const __m256i is_needy = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << 15), left);  // below 2^31
    const auto needy = static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(is_needy)));
    const __m256i which =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(k_next_words.of[needy])));
    const __m256i there = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words)));
    const __m256i filled = _mm256_or_si256(_mm256_slli_epi32(left, 16), _mm256_permutevar8x32_epi32(there, which));
    states = _mm256_blendv_epi8(left, filled, is_needy);
    return words + 2U * static_cast<std::uint32_t>(__builtin_popcount(needy));
  }
};

}  // namespace

void decode_symbols_avx2(CodedPairs* streams, std::uint32_t stream_count) {
  decode_streams<Avx2>(streams, stream_count);
}

}  // namespace wdelta
