// SPDX-License-Identifier: Apache-2.0
#include "engine/classed_decoder.hpp"

#include "base/error.hpp"
#include "engine/bits.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace wdelta {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(Fault::corrupt, "", what); }

}  // namespace

GroupTables::GroupTables(std::span<const std::uint8_t> parameters, const GroupShape& shape)
    : shape_(shape), parameters_(read_group_parameters(parameters, shape)) {
  // Left unset where a class has no symbols: none is looked up there.
  decode_tables_ = std::make_unique_for_overwrite<DecodeTable[]>(2 * parameters_.classes.size());
  for (std::size_t k = 0; k < parameters_.classes.size(); ++k) {
    const ClassCoding& coding = parameters_.classes[k];
    if (!coding.is_used()) continue;
    fill_decode_table(coding.gap_frequencies(), decode_tables_[2 * k]);
    fill_decode_table(coding.step_frequencies(), decode_tables_[2 * k + 1]);
  }
}

ClassedDecoder::ClassedDecoder() = default;

ClassedSymbols ClassedDecoder::symbols(const Engine& engine, const GroupTables& group, std::uint64_t block,
                                       std::span<const std::uint8_t> coded) {
  const ClassCounts& counts = group.parameters().blocks.at(block);
  std::uint32_t changes = 0;
  for (std::uint32_t k = 0; k < group.parameters().class_count(); ++k) {
    // A few more than there are: the next class follows, and in the end there is room.
    constexpr std::size_t k_at_a_time = 64;
    for (std::size_t i = 0; i < counts[k]; i += k_at_a_time) {
      std::memset(change_classes_.get() + changes + i, static_cast<int>(k), k_at_a_time);
    }
    changes += counts[k];
  }
  if (changes == 0) refuse("its group has no numbers of changes for it");
  decode_symbols(engine, group, changes, coded);
  return {{change_classes_.get(), changes}, {gap_symbols_.get(), changes}, {step_symbols_.get(), changes}};
}

ClassedChanges ClassedDecoder::changes(const Engine& engine, const GroupTables& group, std::uint64_t block,
                                       std::span<const std::uint8_t> coded, std::uint32_t element_count,
                                       ChangeRoom& room) {
  const GroupParameters& parameters = group.parameters();
  const ClassCounts& counts = parameters.blocks.at(block);
  const auto change_count = static_cast<std::uint32_t>(symbols(engine, group, block, coded).classes.size());
  const ChangeRoom::Part part = room.take(change_count, group.shape().type.width_bytes);
  read_raw_bits(engine.classed(group.shape().type), counts, change_count, element_count, part);
  return {parameters.bounds.data(),
          static_cast<std::uint32_t>(parameters.bounds.size()),
          counts.data(),
          part.ranks,
          part.moves,
          nullptr};
}

void ClassedDecoder::apply(const Engine& engine, const GroupTables& group, std::uint64_t block,
                           std::span<const std::uint8_t> coded, std::span<std::uint8_t> elements) {
  const ElementType type = group.shape().type;
  const auto element_count = static_cast<std::uint32_t>(elements.size() / type.width_bytes);
  room_.clear();
  ClassedChanges found = changes(engine, group, block, coded, element_count, room_);
  found.flips = flips_.expand(0, group, block, element_count);
  if (!engine.classed(type).apply(elements.data(), element_count, &found)) refuse_changes();
}

const std::uint64_t* FlipRoom::expand(std::size_t at, const GroupTables& group, std::uint64_t in_group,
                                      std::uint32_t element_count) {
  const SignMask& mask = group.parameters().mask;
  if (mask.is_empty()) return nullptr;
  std::uint64_t* const flips = words_.get() + at * k_words;
  expand_sign_mask(mask, group.shape().place, in_group * k_block_elements, element_count, {flips, k_words});
  return flips;
}

void refuse_changes() { refuse("a change lies outside its class"); }

void ClassedDecoder::decode_symbols(const Engine& engine, const GroupTables& group, std::uint32_t changes,
                                    std::span<const std::uint8_t> coded) {
  const std::uint32_t lanes = lanes_for(changes);
  std::array<std::uint32_t, 8> states{};
  BitReader bits(coded);
  std::array<std::uint32_t, 8> below{};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) below[lane] = 15 + bits.read(4);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) states[lane] = bits.read(below[lane]) | 1U << below[lane];
  if (bits.is_overrun()) refuse("its states are cut off");
  if (!bits.is_padded()) refuse("its states end with bits that mean nothing");
  const std::uint8_t* const end = coded.data() + coded.size();
  const std::uint8_t* const rest = engine.kernels->coding.decode_symbols(
      group.decode_tables(), change_classes_.get(), changes, lanes, states.data(), coded.data() + bits.bytes_read(),
      end, gap_symbols_.get(), step_symbols_.get());
  if (rest == nullptr) refuse("its symbols are cut off");

  // The states end with the first raw bits, 15 in each.
  const std::uint32_t in_states = state_payload_bytes(lanes);
  std::array<std::uint8_t, 18> payload{};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    if (states[lane] >> 16 != 0) refuse("a state does not end where it should");
    const std::uint32_t held = (states[lane] & 0x7fff) << (15 * lane % 8);
    for (std::uint32_t k = 0; k < 3; ++k) {
      payload[15 * lane / 8 + k] = static_cast<std::uint8_t>(payload[15 * lane / 8 + k] | held >> (8 * k));
    }
  }
  for (std::size_t i = in_states; i < payload.size(); ++i) {
    if (payload[i] != 0) refuse("a state ends with bits that mean nothing");
  }
  raw_bytes_ = in_states + static_cast<std::size_t>(end - rest);
  if (raw_bytes_ > k_most_raw_bytes) refuse("it has more raw bits than changes can have");
  std::copy_n(payload.data(), in_states, raw_.get());
  std::copy(rest, end, raw_.get() + in_states);
}

// Ranks and moves out of buckets and raw bits.
void ClassedDecoder::read_raw_bits(const ClassedKernels& kernels, const ClassCounts& counts, std::uint32_t changes,
                                   std::uint32_t element_count, const ChangeRoom::Part& part) {
  std::uint64_t raw_bits = 0;
  const std::uint32_t ranks = kernels.join_raw_bits(gap_symbols_.get(), step_symbols_.get(), k_most_classes,
                                                    counts.data(), raw_.get(), part.ranks, part.moves, &raw_bits);
  const std::uint64_t needed = (raw_bits + 7) / 8;
  // What fits into the states has no bytes of its own, and leaves zeros there.
  const std::size_t in_states = state_payload_bytes(lanes_for(changes));
  if (raw_bytes_ != std::max<std::uint64_t>(needed, in_states)) refuse("its raw bits have the wrong length");
  std::uint64_t loose = raw_bits % 8 != 0 ? raw_[needed - 1] >> (raw_bits % 8) : 0;
  for (std::uint64_t i = needed; i < raw_bytes_; ++i) loose |= raw_[i];
  if (loose != 0) refuse("it has raw bits that mean nothing");
  if (ranks > element_count) refuse("a change lies outside the block");
}

}  // namespace wdelta
