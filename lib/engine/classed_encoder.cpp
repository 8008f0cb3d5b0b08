// SPDX-License-Identifier: Apache-2.0
#include "engine/classed_encoder.hpp"

#include "engine/bits.hpp"

#include <algorithm>
#include <array>

namespace wdelta {
namespace {

static_assert(k_gap_buckets <= k_first_step_entry && k_first_step_entry + k_step_symbols <= k_class_entries);
constexpr std::size_t k_word_room = 2 * k_block_elements + 8;

}  // namespace

ClassedEncoder::ClassedEncoder() : words_(std::make_unique_for_overwrite<std::uint16_t[]>(k_word_room)) {}

void ClassedEncoder::begin(std::span<const ClassCoding> classes) {
  entries_.assign(classes.size() * k_class_entries, 0);
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (!classes[k].is_used()) continue;
    fill_encode_entries(classes[k].gap_frequencies(), entries_.data() + k * k_class_entries);
    fill_encode_entries(classes[k].step_frequencies(), entries_.data() + k * k_class_entries + k_first_step_entry);
  }
}

void ClassedEncoder::append(const CodingKernels& coding, const ChangeSymbols& symbols, const BlockSymbols& block,
                            std::vector<std::uint8_t>& coded) {
  const std::uint32_t lanes = lanes_for(static_cast<std::uint32_t>(block.change_count));
  // The first states carry raw bits: the decoder ends with them, and starts with nothing wasted.
  std::array<std::uint8_t, 16> payload{};
  const std::span<const std::uint8_t> raw = symbols.raw_of(block);
  const std::size_t in_states = std::min<std::size_t>(raw.size(), state_payload_bytes(lanes));
  std::copy_n(raw.data(), in_states, payload.data());
  std::array<std::uint32_t, 8> states{};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::uint32_t three_bytes = 0;
    for (std::uint32_t k = 0; k < 3 && 15 * lane / 8 + k < payload.size(); ++k) {
      three_bytes |= std::uint32_t{payload[15 * lane / 8 + k]} << (8 * k);
    }
    states[lane] = 0x8000U | ((three_bytes >> (15 * lane % 8)) & 0x7fff);
  }

  std::uint16_t* const words_end = words_.get() + k_word_room;
  const SymbolPairs pairs = {symbols.gaps_of(block), symbols.steps_of(block), block.counts.data()};
  const std::uint16_t* const first_word =
      coding.encode_symbols(entries_.data(), &pairs, lanes, states.data(), words_end);
  const auto append = [&](const void* from, std::size_t size_bytes) {
    const auto* const bytes = static_cast<const std::uint8_t*>(from);
    coded.insert(coded.end(), bytes, bytes + size_bytes);
  };
  // States are anything from 2^15 to 2^31: how many bits beyond 15, then the bits below the highest.
  BitWriter bits(coded);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    bits.write(static_cast<std::uint32_t>(std::bit_width(states[lane])) - 16, 4);
  }
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const auto below = static_cast<std::uint32_t>(std::bit_width(states[lane])) - 1;
    bits.write(states[lane] - (1U << below), below);
  }
  bits.finish();
  append(first_word, static_cast<std::size_t>(words_end - first_word) * sizeof(std::uint16_t));
  append(raw.data() + in_states, raw.size() - in_states);
}

}  // namespace wdelta
