// SPDX-License-Identifier: Apache-2.0
// The parameters of a group and its only batch, any bytes. An input is an element type (3 bits) and how long rows are
// (the rest of a byte, and one more), the element count of the last block less 1 (2 bytes), the length of the
// parameters (12 bits), how many blocks are in a strip (2 bits, its logarithm), how many blocks come before the last (2
// bits), the parameters, and the coded batch.
#include "base/error.hpp"
#include "testing/decoded_group.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

namespace {

using namespace wdelta;
using namespace wdelta::testing;

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
  // Then blocks would be coded alone: block_fuzz.cpp.
  if (input.parameters.empty()) return std::nullopt;
  std::vector<std::uint8_t> elements = base_of(input.shape);
  const ElementType type = input.shape.type;
  try {
    const DecodedGroup group(engine, input.parameters, input.shape, input.shape.strips().count(), {input.coded});
    BlockChain chain(engine);
    for (std::size_t round = 0; round < (is_chain ? 1 : times); ++round) {
      chain.begin(type);
      for (std::size_t i = 0; i < (is_chain ? times : 1); ++i) {
        for (std::size_t block = 0; block < input.shape.block_count; ++block) group.add_to(chain, {block, i}, block);
      }
      each_block_of(elements.size(), type, [&](std::size_t block, std::size_t begin, std::size_t size) {
        chain.apply(block, std::span(elements).subspan(begin, size));
      });
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) std::abort();
    return std::nullopt;
  }
  return elements;
}

/// What decoding `group` over the base gives.
std::vector<std::uint8_t> applied(const CodedGroup& group, const GroupShape& shape,
                                  std::vector<std::uint8_t> elements) {
  BlockChain chain(best_engine());
  apply_group(chain, DecodedGroup(best_engine(), group, shape), shape.type, elements);
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
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::classed}) {
    CodedGroup group;
    GroupEncoder encoder(best_engine(), choice);
    encoder.begin(input.shape.type, input.shape.place, ExpectedElements::exactly(input.shape.element_count));
    each_block_of(base.size(), input.shape.type, [&](std::size_t, std::size_t begin, std::size_t size) {
      encoder.add(std::span(base).subspan(begin, size), std::span(*scalar).subspan(begin, size));
    });
    encoder.finish(group);
    if (applied(group, input.shape, base) != *scalar) std::abort();
  }
  return 0;
}
