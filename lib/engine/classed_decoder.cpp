// SPDX-License-Identifier: Apache-2.0
#include "engine/classed_decoder.hpp"

#include "base/error.hpp"
#include "engine/bits.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>

namespace wdelta {
namespace {

[[noreturn]] void refuse(const std::string& what) { throw Error(Fault::corrupt, "", what); }

}  // namespace

GroupTables::GroupTables(std::span<const std::uint8_t> parameters, const GroupShape& shape,
                         const GroupReference* reference)
    : shape_(shape), parameters_(read_group_parameters(parameters, shape, reference)) {
  if (skips_rows()) kept_ = kept_ranges(parameters_.skipped, shape_.row_parts());
  // Left unset where a class has no changes: none is looked up there.
  decode_tables_ = std::make_unique_for_overwrite<DecodeTable[]>(2 * parameters_.classes.size());
  for (std::size_t k = 0; k < parameters_.classes.size(); ++k) {
    const ClassCoding& coding = parameters_.classes[k];
    if (std::ranges::all_of(parameters_.strips, [&](const ClassCounts& counts) { return counts[k] == 0; })) continue;
    fill_decode_table(coding.gap_frequencies(), decode_tables_[2 * k]);
    fill_decode_table(coding.step_frequencies(), decode_tables_[2 * k + 1]);
  }
}

ClassedDecoder::ClassedDecoder() = default;

void DecodedBatch::begin(const IndexRange& strips, std::size_t changes, std::size_t width_bytes) {
  // Of most types no batch takes more: memory that had to grow would be paid for once more, and what is not touched is
  // not paid for.
  constexpr std::size_t k_least_bytes = std::size_t{512} << 10;
  std::uint8_t* const memory = memory_.of_size(std::max(size_bytes(changes, width_bytes), k_least_bytes)).data();
  ranks_ = reinterpret_cast<std::uint32_t*>(memory);
  moves_ = memory + rank_bytes(changes);
  first_strip_ = strips.first;
  changes_.assign(strips.end - strips.first, {});
}

// The classes of a batch's changes, by the numbers that the group's parameters say.
void ClassedDecoder::list_classes(const GroupParameters& parameters, const IndexRange& strips, Symbols& symbols) {
  std::uint32_t changes = 0;
  for (std::uint64_t strip = strips.first; strip < strips.end; ++strip) {
    const ClassCounts& counts = parameters.strips.at(strip);
    for (std::uint32_t k = 0; k < parameters.class_count(); ++k) {
      const std::uint32_t of_class = counts[k];
      if (of_class > k_most_batch_changes - changes) refuse("its batch has more changes than any may have");
      // A few more than there are: the next class follows, and in the end there is room.
      constexpr std::size_t k_at_a_time = 64;
      for (std::size_t i = 0; i < of_class; i += k_at_a_time) {
        std::memset(symbols.classes.get() + changes + i, static_cast<int>(k), k_at_a_time);
      }
      changes += of_class;
    }
  }
  if (changes == 0) refuse("its group has no numbers of changes for it");
  symbols.count = changes;
}

CodedPairs ClassedDecoder::read_states(const GroupTables& group, std::span<const std::uint8_t> coded,
                                       const Symbols& symbols) {
  const std::uint32_t lanes = lanes_for(symbols.count);
  BitReader bits(coded);
  std::array<std::uint32_t, 8> below{};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) below[lane] = 15 + bits.read(4);
  CodedPairs pairs{
      .tables = group.decode_tables(),
      .classes = symbols.classes.get(),
      .count = symbols.count,
      .lanes = lanes,
      .states = {},
      .words = nullptr,
      .words_end = coded.data() + coded.size(),
      .gaps = symbols.gaps.get(),
      .steps = symbols.steps.get(),
  };
  for (std::uint32_t lane = 0; lane < lanes; ++lane) pairs.states[lane] = bits.read(below[lane]) | 1U << below[lane];
  if (bits.is_overrun()) refuse("its states are cut off");
  if (!bits.is_padded()) refuse("its states end with bits that mean nothing");
  pairs.words = coded.data() + bits.bytes_read();
  return pairs;
}

// Of at most k_at_once batches; in the end coded_ says what is left of each.
void ClassedDecoder::decode_symbols(const Engine& engine, std::span<const CodedBatch> lot) {
  for (std::size_t i = 0; i < lot.size(); ++i) {
    const CodedBatch& batch = lot[i];
    list_classes(batch.group->parameters(), batch.strips, symbols_[i]);
    coded_[i] = read_states(*batch.group, batch.bytes, symbols_[i]);
  }
  engine.kernels->coding.decode_symbols(coded_.data(), static_cast<std::uint32_t>(lot.size()));
}

ClassedSymbols ClassedDecoder::symbols(const Engine& engine, const GroupTables& group, const IndexRange& strips,
                                       std::span<const std::uint8_t> coded) {
  const CodedBatch batch{&group, strips, coded, nullptr};
  decode_symbols(engine, {&batch, 1});
  const Symbols& made = symbols_.front();
  take_raw_bits(coded_.front(), made.count);
  return {{made.classes.get(), made.count}, {made.gaps.get(), made.count}, {made.steps.get(), made.count}};
}

// In lots as equal as can be: one alone takes far longer than one of several.
void ClassedDecoder::decode(const Engine& engine, std::span<const CodedBatch> batches) {
  while (!batches.empty()) {
    const std::size_t lots = (batches.size() + k_at_once - 1) / k_at_once;
    const auto lot = batches.first((batches.size() + lots - 1) / lots);
    decode_symbols(engine, lot);
    for (std::size_t i = 0; i < lot.size(); ++i) {
      take_raw_bits(coded_[i], symbols_[i].count);
      join_raw_bits(engine, lot[i], symbols_[i]);
    }
    batches = batches.subspan(lot.size());
  }
}

void ClassedDecoder::join_raw_bits(const Engine& engine, const CodedBatch& batch, const Symbols& symbols) {
  const GroupParameters& parameters = batch.group->parameters();
  const GroupShape& shape = batch.group->shape();
  const ClassedKernels& kernels = engine.classed(shape.type);
  DecodedBatch& decoded = *batch.decoded;
  decoded.begin(batch.strips, symbols.count, shape.type.width_bytes);
  std::uint64_t raw_bits = 0;
  std::uint32_t first = 0;
  for (std::uint64_t strip = batch.strips.first; strip < batch.strips.end; ++strip) {
    const ClassCounts& counts = parameters.strips[strip];
    std::uint32_t* const ranks = decoded.ranks_ + first;
    std::uint8_t* const moves = decoded.moves_ + std::size_t{first} * shape.type.width_bytes;
    decoded.changes_[strip - batch.strips.first] = {
        .bounds = parameters.bounds.data(),
        .bound_count = static_cast<std::uint32_t>(parameters.bounds.size()),
        .class_changes = counts.data(),
        .ranks = ranks,
        .moves = moves,
        .flips = nullptr,
        .progress = nullptr,
        .blocks_left = 1,
    };
    const std::uint32_t needed =
        kernels.join_raw_bits(symbols.gaps.get() + first, symbols.steps.get() + first, k_most_classes, counts.data(),
                              raw_.get(), ranks, moves, &raw_bits);
    if (needed > shape.elements_of(shape.strips().blocks_of(strip))) refuse("a change lies outside the block");
    first = std::accumulate(counts.begin(), counts.end(), first);
  }
  require_raw_bits(raw_bits, symbols.count);
}

const std::uint64_t* FlipRoom::expand(std::size_t at, const GroupTables& group, const ElementRange& elements) {
  const SignMask& mask = group.parameters().mask;
  if (mask.is_empty()) return nullptr;
  std::uint64_t* const flips = words_.get() + at * k_words;
  expand_sign_mask(mask, group.shape().place, elements.begin, static_cast<std::uint32_t>(elements.size()),
                   {flips, k_words});
  return flips;
}

void refuse_changes() { refuse("a change lies outside its class"); }

// The states end with the first raw bits, 15 in each; the others are behind the words.
void ClassedDecoder::take_raw_bits(const CodedPairs& decoded, std::uint32_t changes) {
  if (decoded.words == nullptr) refuse("its symbols are cut off");
  const std::uint32_t lanes = lanes_for(changes);
  const std::uint32_t in_states = state_payload_bytes(lanes);
  std::array<std::uint8_t, 18> payload{};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    if (decoded.states[lane] >> 16 != 0) refuse("a state does not end where it should");
    const std::uint32_t held = (decoded.states[lane] & 0x7fff) << (15 * lane % 8);
    for (std::uint32_t k = 0; k < 3; ++k) {
      payload[15 * lane / 8 + k] = static_cast<std::uint8_t>(payload[15 * lane / 8 + k] | held >> (8 * k));
    }
  }
  for (std::size_t i = in_states; i < payload.size(); ++i) {
    if (payload[i] != 0) refuse("a state ends with bits that mean nothing");
  }
  raw_bytes_ = in_states + static_cast<std::size_t>(decoded.words_end - decoded.words);
  if (raw_bytes_ > k_most_raw_bytes) refuse("it has more raw bits than changes can have");
  std::copy_n(payload.data(), in_states, raw_.get());
  std::copy(decoded.words, decoded.words_end, raw_.get() + in_states);
}

void ClassedDecoder::require_raw_bits(std::uint64_t raw_bits, std::uint32_t changes) const {
  const std::uint64_t needed = (raw_bits + 7) / 8;
  // What fits into the states has no bytes of its own, and leaves zeros there.
  const std::size_t in_states = state_payload_bytes(lanes_for(changes));
  if (raw_bytes_ != std::max<std::uint64_t>(needed, in_states)) refuse("its raw bits have the wrong length");
  std::uint64_t loose = raw_bits % 8 != 0 ? raw_[needed - 1] >> (raw_bits % 8) : 0;
  for (std::uint64_t i = needed; i < raw_bytes_; ++i) loose |= raw_[i];
  if (loose != 0) refuse("it has raw bits that mean nothing");
}

}  // namespace wdelta
