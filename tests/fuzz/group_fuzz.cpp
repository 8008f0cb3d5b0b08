// SPDX-License-Identifier: Apache-2.0
// The parameters of a group and its only batch, any bytes. An input is an element type (3 bits) and how long rows are
// (the rest of a byte, and one more), the element count of the last block less 1 (2 bytes), the length of the
// parameters (12 bits), how many blocks are in a strip (2 bits, its logarithm), how many blocks come before the last (2
// bits), the parameters, and the coded batch.
#include "base/error.hpp"
#include "engine/block_chain.hpp"
#include "engine/group.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace {

using namespace wdelta;

struct Input {
  GroupShape shape;
  std::vector<std::uint8_t> parameters;
  std::vector<std::uint8_t> coded;
};

std::vector<std::uint8_t> base_of(const GroupShape& shape) {
  std::vector<std::uint8_t> base(shape.element_count * shape.type.width_bytes);
  // Contexts of all sorts, near ones more often.
  std::uint32_t state = 1;
  for (std::uint8_t& byte : base) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<std::uint8_t>((state >> 24) & (state >> 16));
  }
  return base;
}

/// What the engine makes of it as so many deltas that all say the same, one after the other or as a chain; nothing
/// where it refuses.
std::optional<std::vector<std::uint8_t>> decoded(const Engine& engine, const Input& input, std::size_t times,
                                                 bool is_chain) {
  std::vector<std::uint8_t> elements = base_of(input.shape);
  const std::size_t block_bytes = std::size_t{k_block_elements} * input.shape.type.width_bytes;
  try {
    const GroupTables tables(input.parameters, input.shape);
    ClassedDecoder decoder;
    DecodedBatch batch;
    const Strips strips = input.shape.strips();
    decoder.decode(engine, tables, {0, strips.count()}, input.coded, batch);
    BlockChain chain(engine);
    chain.begin(input.shape.type);
    const auto apply = [&] {
      for (std::size_t block = 0; block < input.shape.block_count; ++block) {
        const std::size_t begin = block * block_bytes;
        chain.apply(block, std::span(elements).subspan(begin, std::min(block_bytes, elements.size() - begin)));
      }
      chain.begin(input.shape.type);
    };
    for (std::size_t i = 0; i < times; ++i) {
      for (std::size_t block = 0; block < input.shape.block_count; ++block) {
        const std::uint64_t strip = strips.of(block);
        if (is_classed(tables.parameters().strips[strip]))
          chain.add({block, i}, tables, block, batch.changes_of(strip));
      }
      if (!is_chain) apply();
    }
    if (is_chain) apply();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) std::abort();
    return std::nullopt;
  }
  return elements;
}

/// What decoding `group` over the base gives.
std::vector<std::uint8_t> applied(const CodedGroup& group, GroupShape shape, std::vector<std::uint8_t> elements) {
  shape.blocks_in_strip = group.blocks_in_strip;
  const Strips strips = shape.strips();
  const std::size_t block_bytes = std::size_t{k_block_elements} * shape.type.width_bytes;
  std::optional<GroupTables> tables;
  if (!group.parameters.empty()) tables.emplace(group.parameters, shape);
  ClassedDecoder decoder;
  DecodedBatch batch;
  BlockChain chain(best_engine());
  std::size_t at = 0;
  for (std::uint64_t strip = 0; strip < strips.count(); ++strip) {
    const std::uint64_t first = strip - strip % group.strips_in_batch;
    const auto coded = std::span(group.bytes).subspan(at, group.batch_bytes[strip / group.strips_in_batch]);
    const IndexRange batch_strips{first, std::min<std::uint64_t>(first + group.strips_in_batch, strips.count())};
    const bool is_in_classes = tables && is_classed(tables->parameters().strips[strip]);
    if (is_in_classes) decoder.decode(best_engine(), *tables, batch_strips, coded, batch);
    chain.begin(shape.type);
    const IndexRange blocks = strips.blocks_of(strip);
    for (std::uint64_t block = blocks.first; block < blocks.end; ++block) {
      if (is_in_classes) {
        chain.add({block - blocks.first, 0}, *tables, block, batch.changes_of(strip));
      } else if (group.blocks_in_strip == 1 && group.strips_in_batch == 1) {
        chain.add({block - blocks.first, 0}, coded);
      }
    }
    for (std::uint64_t block = blocks.first; block < blocks.end; ++block) {
      const std::size_t begin = block * block_bytes;
      chain.apply(block - blocks.first,
                  std::span(elements).subspan(begin, std::min(block_bytes, elements.size() - begin)));
    }
    if (strip + 1 == batch_strips.end) at += coded.size();
  }
  return elements;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  if (size_bytes < 6) return 0;
  Input input;
  input.shape.type = {static_cast<std::uint8_t>(1 << (bytes[0] & 3)),
                      (bytes[0] & 4) != 0 ? ElementKind::floating : ElementKind::integer};
  input.shape.block_count = 1 + bytes[5] / 64U;
  input.shape.element_count = (input.shape.block_count - 1) * k_block_elements + 1 + bytes[2] + 256U * bytes[3];
  // From the second block of the tensor on: the first strip may be short.
  input.shape.place = {bytes[0] / 8U + 32U * bytes[1], k_block_elements};
  input.shape.blocks_in_strip = 1U << bytes[5] / 16 % 4;
  const std::size_t parameter_bytes = std::min<std::size_t>(bytes[4] + 256U * (bytes[5] % 16), size_bytes - 6);
  // Copies of exactly their size, so that the sanitizer sees the first byte too many.
  input.parameters.assign(bytes + 6, bytes + 6 + parameter_bytes);
  input.coded.assign(bytes + 6 + parameter_bytes, bytes + size_bytes);

  const auto scalar = decoded(engines().back(), input, 1, false);
  for (const Engine& engine : engines()) {
    if (engine.usable() && decoded(engine, input, 1, false) != scalar) std::abort();
  }
  if (!scalar) return 0;
  const auto thrice = decoded(engines().back(), input, 3, false);
  for (const Engine& engine : engines()) {
    if (engine.usable() && decoded(engine, input, 3, true) != thrice) std::abort();
  }

  // What was taken can be coded anew and comes back.
  const std::vector<std::uint8_t> base = base_of(input.shape);
  const std::size_t block_bytes = std::size_t{k_block_elements} * input.shape.type.width_bytes;
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::classed}) {
    CodedGroup group;
    GroupEncoder encoder(best_engine(), choice);
    encoder.begin(input.shape.type, input.shape.place, input.shape.element_count);
    for (std::size_t begin = 0; begin < base.size(); begin += block_bytes) {
      const std::size_t length = std::min(block_bytes, base.size() - begin);
      encoder.add(std::span(base).subspan(begin, length), std::span(*scalar).subspan(begin, length));
    }
    encoder.finish(group);
    if (applied(group, input.shape, base) != *scalar) std::abort();
  }
  return 0;
}
