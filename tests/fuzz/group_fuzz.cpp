// SPDX-License-Identifier: Apache-2.0
// The parameters of a group, and of one that it refers to, and its only batch, any bytes. An input is an element type
// (3 bits) and how long rows are (the rest of a byte, and one more), the element count of the last block less 1 (2
// bytes), the length of the parameters (14 bits), how many blocks come before the last (2 bits), how many blocks are in
// a strip (3 bits, its logarithm), how many times four bytes the parameters are that it refers to (the rest of a byte;
// 0: it refers to none), these parameters, its own, and the coded batch.
#include "base/error.hpp"
#include "testing/decoded_group.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

namespace {

using namespace wdelta;
using namespace wdelta::testing;

struct Input {
  GroupShape shape;
  std::vector<std::uint8_t> of_reference;  // empty: there is none
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
    std::optional<GroupReference> reference;
    if (!input.of_reference.empty()) reference = read_group_reference(input.of_reference, input.shape);
    const DecodedGroup group(engine, input.parameters, input.shape, input.shape.strips().count(), {input.coded},
                             reference ? &*reference : nullptr);
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
  constexpr std::size_t k_head_bytes = 7;
  if (size_bytes < k_head_bytes) return 0;
  Input input;
  input.shape.type = {static_cast<std::uint8_t>(1 << (bytes[0] & 3)),
                      (bytes[0] & 4) != 0 ? ElementKind::floating : ElementKind::integer};
  input.shape.block_count = 1 + bytes[5] / 64U;
  input.shape.element_count = (input.shape.block_count - 1) * k_block_elements + 1 + bytes[2] + 256U * bytes[3];
  // From the second block of the tensor on: the first strip may be short.
  input.shape.place = {bytes[0] / 8U + 32U * bytes[1], k_block_elements};
  input.shape.blocks_in_strip = std::min(1U << bytes[6] % 8, k_most_blocks_in_strip);
  std::span<const std::uint8_t> left(bytes + k_head_bytes, size_bytes - k_head_bytes);
  // Copies of exactly their size, so that the sanitizer sees the first byte too many.
  const auto take = [&](std::size_t count) {
    const auto taken = left.first(std::min(count, left.size()));
    left = left.subspan(taken.size());
    return std::vector<std::uint8_t>(taken.begin(), taken.end());
  };
  input.of_reference = take(bytes[6] / 8U * 4);
  input.parameters = take(bytes[4] + 256U * (bytes[5] % 64));
  input.coded = take(left.size());

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
