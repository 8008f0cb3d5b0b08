// SPDX-License-Identifier: Apache-2.0
// The parameters of a group and one of its blocks, any bytes. An input is an element type (3 bits) and how long rows
// are (the rest of a byte, and one more), an element count less 1 (2 bytes), the length of the parameters (2 bytes),
// the parameters, and the coded block.
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

/// What the engine makes of it; nothing where it refuses.
std::optional<std::vector<std::uint8_t>> decoded(const Engine& engine, const Input& input, std::size_t times = 1) {
  std::vector<std::uint8_t> elements = base_of(input.shape);
  try {
    const GroupTables tables(input.parameters, input.shape);
    BlockDecoder decoder(engine);
    for (std::size_t i = 0; i < times; ++i) decoder.apply(input.coded, input.shape.type, elements, &tables, 0);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) std::abort();
    return std::nullopt;
  }
  return elements;
}

/// The same, as a chain of deltas that all say the same.
std::optional<std::vector<std::uint8_t>> chained(const Engine& engine, const Input& input, std::size_t times) {
  std::vector<std::uint8_t> elements = base_of(input.shape);
  try {
    const GroupTables tables(input.parameters, input.shape);
    BlockChain chain(engine);
    chain.begin(input.shape.type);
    const auto count = static_cast<std::uint32_t>(input.shape.element_count);
    for (std::size_t i = 0; i < times; ++i) chain.add({0, i}, {input.coded, &tables, 0}, count);
    chain.apply(0, elements);
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) std::abort();
    return std::nullopt;
  }
  return elements;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  if (size_bytes < 6) return 0;
  Input input;
  input.shape.type = {static_cast<std::uint8_t>(1 << (bytes[0] & 3)),
                      (bytes[0] & 4) != 0 ? ElementKind::floating : ElementKind::integer};
  input.shape.element_count = 1U + bytes[2] + 256U * bytes[3];
  input.shape.block_count = 1;
  input.shape.place = {bytes[0] / 8U + 32U * bytes[1], 65536};
  const std::size_t parameter_bytes = std::min<std::size_t>(bytes[4] + 256U * bytes[5], size_bytes - 6);
  // Copies of exactly their size, so that the sanitizer sees the first byte too many.
  input.parameters.assign(bytes + 6, bytes + 6 + parameter_bytes);
  input.coded.assign(bytes + 6 + parameter_bytes, bytes + size_bytes);

  const auto scalar = decoded(engines().back(), input);
  for (const Engine& engine : engines()) {
    if (engine.usable() && decoded(engine, input) != scalar) std::abort();
  }
  if (!scalar) return 0;
  const auto thrice = decoded(engines().back(), input, 3);
  for (const Engine& engine : engines()) {
    if (engine.usable() && chained(engine, input, 3) != thrice) std::abort();
  }

  // What was taken can be coded anew and comes back.
  const std::vector<std::uint8_t> base = base_of(input.shape);
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::classed}) {
    CodedGroup group;
    GroupEncoder encoder(best_engine(), choice);
    encoder.begin(input.shape.type, input.shape.place, input.shape.element_count);
    encoder.add(base, *scalar);
    encoder.finish(group);
    std::optional<GroupTables> tables;
    if (!group.parameters.empty()) tables.emplace(group.parameters, input.shape);
    std::vector<std::uint8_t> elements = base;
    BlockDecoder(best_engine()).apply(group.bytes, input.shape.type, elements, tables ? &*tables : nullptr, 0);
    if (elements != *scalar) std::abort();
  }
  return 0;
}
