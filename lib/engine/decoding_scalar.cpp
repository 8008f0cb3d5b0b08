// SPDX-License-Identifier: Apache-2.0
#include "engine/decoding_scalar.hpp"

namespace wdelta {

namespace {

constexpr std::uint32_t k_lanes = 8;
constexpr std::uint32_t k_least_state = 1U << 15;

/// What a state becomes, but for the word that it may need.
std::uint32_t taken_from(std::uint32_t state, std::uint32_t slot) {
  return (slot & DecodeTable::k_frequencies) * (state >> DecodeTable::k_slot_bits) +
         (slot >> DecodeTable::k_place_shift) % DecodeTable::k_slots;
}

/// Takes one symbol from a coder, and one word where it needs it. Which do is not to be foretold, so nothing branches
/// on it: the word is loaded in any case.
std::uint8_t decode_one(const DecodeTable& table, std::uint32_t& state, const std::uint8_t*& words) {
  const std::uint32_t slot = table.slots[state % DecodeTable::k_slots];
  const std::uint32_t next = taken_from(state, slot);
  std::uint16_t word;
  __builtin_memcpy(&word, words, sizeof(word));
  // In arithmetic: a compiler may turn a choice into a branch.
  const std::uint32_t needs_word = (next - k_least_state) >> 31;  // next is below 2^31
  state = next << (16 * needs_word) | (word & (0U - needs_word));
  words += 2 * needs_word;
  return static_cast<std::uint8_t>(slot >> DecodeTable::k_symbol_shift);
}

/// Whole rounds, as long as there are words for any.
void decode_rounds(CodedPairs& stream) {
  // In variables of its own: a symbol that is written might be a part of `stream` for all that a compiler knows.
  std::uint32_t state[k_lanes];
  for (std::uint32_t lane = 0; lane < k_lanes; ++lane) state[lane] = stream.states[lane];
  const DecodeTable* const tables = stream.tables;
  const std::uint8_t* const classes = stream.classes;
  std::uint8_t* const gaps = stream.gaps;
  std::uint8_t* const steps = stream.steps;
  const std::uint8_t* words = stream.words;
  const std::uint8_t* const words_end = stream.words_end;
  const std::uint32_t count = stream.count;
  std::uint32_t first = 0;
  // A round takes at most 16 words.
  for (; count - first >= k_lanes && words_end - words >= 32; first += k_lanes) {
#pragma GCC unroll 8
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
      gaps[first + lane] = decode_one(tables[2U * classes[first + lane]], state[lane], words);
    }
#pragma GCC unroll 8
    for (std::uint32_t lane = 0; lane < k_lanes; ++lane) {
      steps[first + lane] = decode_one(tables[2U * classes[first + lane] + 1], state[lane], words);
    }
  }
  for (std::uint32_t lane = 0; lane < k_lanes; ++lane) stream.states[lane] = state[lane];
  stream.words = words;
  stream.advance(first);
}

/// The last rounds, where there may be less than a word.
void decode_rest(CodedPairs& stream) {
  const auto decode = [&](const DecodeTable& table, std::uint32_t& state) {
    const std::uint32_t slot = table.slots[state % DecodeTable::k_slots];
    state = taken_from(state, slot);
    if (state < k_least_state) {
      if (stream.words_end - stream.words < 2) {
        stream.words = nullptr;
        stream.words_end = nullptr;
        state = k_least_state;
      } else {
        state = state << 16 | stream.words[0] | static_cast<std::uint32_t>(stream.words[1]) << 8;
        stream.words += 2;
      }
    }
    return static_cast<std::uint8_t>(slot >> DecodeTable::k_symbol_shift);
  };
  while (stream.count > 0 && stream.words != nullptr) {
    const std::uint32_t pairs = stream.count < stream.lanes ? stream.count : stream.lanes;
    for (std::uint32_t i = 0; i < pairs; ++i) {
      stream.gaps[i] = decode(stream.tables[2U * stream.classes[i]], stream.states[i]);
    }
    for (std::uint32_t i = 0; i < pairs; ++i) {
      stream.steps[i] = decode(stream.tables[2U * stream.classes[i] + 1], stream.states[i]);
    }
    stream.advance(pairs);
  }
}

}  // namespace

void decode_symbols_scalar(CodedPairs* streams, std::uint32_t stream_count) {
  for (std::uint32_t i = 0; i < stream_count; ++i) {
    if (streams[i].lanes == k_lanes) decode_rounds(streams[i]);
    decode_rest(streams[i]);
  }
}

}  // namespace wdelta
