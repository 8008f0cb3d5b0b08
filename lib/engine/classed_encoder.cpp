// SPDX-License-Identifier: Apache-2.0
#include "engine/classed_encoder.hpp"

#include "engine/bits.hpp"

#include <algorithm>
#include <array>

namespace wdelta {
namespace {

static_assert(k_gap_buckets <= k_first_step_entry && k_first_step_entry + k_step_symbols <= k_class_entries);

}  // namespace

ClassedEncoder::ClassedEncoder()
    : words_(std::make_unique_for_overwrite<std::uint16_t[]>(k_most_streams * k_word_room)) {}

void ClassedEncoder::begin(std::span<const ClassCoding> classes, const ChangeSymbols& symbols,
                           std::span<const std::size_t> batches) {
  symbols_ = &symbols;
  batches_ = batches;
  appended_ = 0;
  first_strip_ = 0;
  entries_.assign(classes.size() * k_class_entries, 0);
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (!classes[k].is_used()) continue;
    fill_encode_entries(classes[k].gap_frequencies(), entries_.data() + k * k_class_entries);
    fill_encode_entries(classes[k].step_frequencies(), entries_.data() + k * k_class_entries + k_first_step_entry);
  }
}

void ClassedEncoder::append_next(const CodingKernels& coding, std::vector<std::uint8_t>& coded) {
  const std::size_t i = appended_ % k_most_streams;
  if (i == 0) code_some(coding);
  ++appended_;
  const SymbolStream& stream = streams_[i];
  const std::span<const std::uint32_t> states(stream.states, stream.lanes);
  // States are anything from 2^15 to 2^31: how many bits beyond 15, then the bits below the highest.
  BitWriter bits(coded);
  for (const std::uint32_t state : states) bits.write(static_cast<std::uint32_t>(std::bit_width(state)) - 16, 4);
  for (const std::uint32_t state : states) {
    const auto below = static_cast<std::uint32_t>(std::bit_width(state)) - 1;
    bits.write(state - (1U << below), below);
  }
  bits.finish();
  const auto append = [&](const void* from, std::size_t size_bytes) {
    const auto* const bytes = static_cast<const std::uint8_t*>(from);
    coded.insert(coded.end(), bytes, bytes + size_bytes);
  };
  append(stream.words, static_cast<std::size_t>(words_end(i) - stream.words) * sizeof(std::uint16_t));
  const Batch& batch = coded_[i];
  append(batch.raw.data() + batch.raw_in_states, batch.raw.size() - batch.raw_in_states);
}

// As many batches side by side as the engine takes, from the next on.
void ClassedEncoder::code_some(const CodingKernels& coding) {
  const auto left = batches_.subspan(appended_);
  const auto batches = left.first(std::min<std::size_t>(left.size(), k_most_streams));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    begin_stream(symbols_->strips().subspan(first_strip_, batches[i]), coded_[i], streams_[i]);
    streams_[i].words = words_end(i);
    first_strip_ += batches[i];
  }
  coding.encode_symbols(entries_.data(), streams_.data(), static_cast<std::uint32_t>(batches.size()));
}

void ClassedEncoder::begin_stream(std::span<const StripSymbols> strips, Batch& batch, SymbolStream& stream) const {
  batch.counts.clear();
  batch.raw.clear();
  BitJoiner raw(batch.raw);
  std::size_t changes = 0;
  for (const StripSymbols& strip : strips) {
    batch.counts.push_back(strip.counts);
    raw.append(symbols_->raw_of(strip), strip.raw_bits);
    changes += strip.change_count;
  }
  stream.pairs = {symbols_->gaps_of(strips.front()), symbols_->steps_of(strips.front()), batch.counts.front().data(),
                  static_cast<std::uint32_t>(strips.size())};
  stream.lanes = lanes_for(static_cast<std::uint32_t>(changes));
  // The first states carry raw bits: the decoder ends with them, and starts with nothing wasted.
  batch.raw_in_states = std::min<std::size_t>(batch.raw.size(), state_payload_bytes(stream.lanes));
  std::array<std::uint8_t, 16> payload{};
  std::copy_n(batch.raw.data(), batch.raw_in_states, payload.data());
  for (std::uint32_t lane = 0; lane < stream.lanes; ++lane) {
    std::uint32_t three_bytes = 0;
    for (std::uint32_t k = 0; k < 3 && 15 * lane / 8 + k < payload.size(); ++k) {
      three_bytes |= std::uint32_t{payload[15 * lane / 8 + k]} << (8 * k);
    }
    stream.states[lane] = 0x8000U | ((three_bytes >> (15 * lane % 8)) & 0x7fff);
  }
}

}  // namespace wdelta
