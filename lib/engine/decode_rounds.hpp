// SPDX-License-Identifier: Apache-2.0
// CodingKernels::decode_symbols() with the eight coders of a stream in a vector, several streams in turns: each waits
// for the symbols that it took last, and meanwhile there is time for the others. For kernel files alone, each of which
// gets a copy of its own.
#pragma once

#include "engine/decoding_scalar.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// The slots of eight states, loaded one by one: with streams in turns, an instruction that gathers them takes longer.
__m256i slots_of(const std::uint32_t* slots, __m256i indices) {
  alignas(32) std::uint32_t at[8];
  _mm256_store_si256(reinterpret_cast<__m256i*>(at), indices);
  asm volatile("" : : "r"(at) : "memory");  // compilers would take the vector apart instead
  const auto four = [&](const std::uint32_t* of) {
    __m128i lanes = _mm_cvtsi32_si128(static_cast<int>(slots[of[0]]));
    lanes = _mm_insert_epi32(lanes, static_cast<int>(slots[of[1]]), 1);
    lanes = _mm_insert_epi32(lanes, static_cast<int>(slots[of[2]]), 2);
    return _mm_insert_epi32(lanes, static_cast<int>(slots[of[3]]), 3);
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(four(at)), four(at + 4), 1);
}

/// What states become, but for the words that some may need.
__m256i taken_from(__m256i states, __m256i slots) {
  const __m256i frequencies = _mm256_and_si256(slots, _mm256_set1_epi32(DecodeTable::k_frequencies));
  const __m256i places = _mm256_and_si256(_mm256_srli_epi32(slots, DecodeTable::k_place_shift),
                                          _mm256_set1_epi32(DecodeTable::k_slots - 1));
  return _mm256_add_epi32(_mm256_mullo_epi32(frequencies, _mm256_srli_epi32(states, DecodeTable::k_slot_bits)), places);
}

constexpr std::uint32_t k_lanes = 8;

/// How many rounds a stream of eight coders can go on without a look at how many words are left: one takes up to 16.
std::uint32_t safe_rounds(const CodedPairs& stream) {
  const auto by_words = static_cast<std::uint64_t>(stream.words_end - stream.words) / 32;
  const std::uint32_t by_pairs = stream.count / k_lanes;
  return by_words < by_pairs ? static_cast<std::uint32_t>(by_words) : by_pairs;
}

/// So many rounds of each stream. Vector::decode() takes a symbol from each of eight coders, and gives words to those
/// that need them; returns behind these.
template <class Vector, std::uint32_t stream_count>
void decode_together(CodedPairs* const* streams, std::uint32_t rounds) {
  // Arrays of their own, which compilers keep in registers where they would not keep a structure.
  __m256i states[stream_count];
  const std::uint8_t* words[stream_count];
  const std::uint32_t* slots[stream_count];
  const std::uint8_t* classes[stream_count];
  std::uint8_t* gaps[stream_count];
  std::uint8_t* steps[stream_count];
#pragma GCC unroll 4
  for (std::uint32_t k = 0; k < stream_count; ++k) {
    states[k] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(streams[k]->states));
    words[k] = streams[k]->words;
    slots[k] = streams[k]->tables->slots;
    classes[k] = streams[k]->classes;
    gaps[k] = streams[k]->gaps;
    steps[k] = streams[k]->steps;
  }
  const std::uint32_t pairs = rounds * k_lanes;
  for (std::size_t i = 0; i < pairs; i += k_lanes) {
    __m256i first_slots[stream_count];  // of the class of each pair: those of its gaps, then those of its steps
#pragma GCC unroll 4
    for (std::uint32_t k = 0; k < stream_count; ++k) {
      const __m128i eight = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(classes[k] + i));
      first_slots[k] = _mm256_slli_epi32(_mm256_cvtepu8_epi32(eight), DecodeTable::k_slot_bits + 1);
      words[k] = Vector::decode(slots[k], first_slots[k], states[k], words[k], gaps[k] + i);
    }
#pragma GCC unroll 4
    for (std::uint32_t k = 0; k < stream_count; ++k) {
      words[k] = Vector::decode(slots[k] + DecodeTable::k_slots, first_slots[k], states[k], words[k], steps[k] + i);
    }
  }
#pragma GCC unroll 4
  for (std::uint32_t k = 0; k < stream_count; ++k) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(streams[k]->states), states[k]);
    streams[k]->words = words[k];
    streams[k]->advance(pairs);
  }
}

template <class Vector>
void decode_streams(CodedPairs* streams, std::uint32_t stream_count) {
  CodedPairs* left[k_most_decoded_at_once];
  std::uint32_t left_count = 0;
  for (std::uint32_t k = 0; k < stream_count; ++k) {
    if (streams[k].lanes == k_lanes) left[left_count++] = &streams[k];
  }
  for (;;) {
    std::uint32_t rounds = ~0U;
    std::uint32_t going_on = 0;
    for (std::uint32_t k = 0; k < left_count; ++k) {
      const std::uint32_t safe = safe_rounds(*left[k]);
      if (safe == 0) continue;
      left[going_on++] = left[k];
      rounds = safe < rounds ? safe : rounds;
    }
    left_count = going_on;
    if (left_count == 4) {
      decode_together<Vector, 4>(left, rounds);
    } else if (left_count == 3) {
      decode_together<Vector, 3>(left, rounds);
    } else if (left_count == 2) {
      decode_together<Vector, 2>(left, rounds);
    } else if (left_count == 1) {
      decode_together<Vector, 1>(left, rounds);
    } else {
      break;
    }
  }
  decode_symbols_scalar(streams, stream_count);
}

}  // namespace
}  // namespace wdelta
