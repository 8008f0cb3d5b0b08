// SPDX-License-Identifier: Apache-2.0
#include "engine/kernels.hpp"

#include "elements.hpp"
#include "engine/engine.hpp"
#include "guarded.hpp"
#include "kernel_rooms.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// Buffers for the kernels, each ending at a page that must not be touched.
struct Room {
  explicit Room(std::size_t most_elements)
      : base(8 * most_elements + 64),
        next(8 * most_elements + 64),
        elements(8 * most_elements + 64),
        planes(8 * most_elements + 64),
        positions(2 * (most_elements + 64) + 64),
        steps(8 * (most_elements + 64) + 64) {}

  Guarded base, next, elements, planes, positions, steps;
};

/// Holds one engine to the man page, all four kernels. Returns what is wrong, or null.
const char* wrong_with(const Engine& engine, ElementType type, const Bytes& base, const Bytes& next,
                       std::size_t distance, Room& room) {
  const std::size_t width = type.width_bytes;
  const auto count = static_cast<std::uint32_t>(next.size() / width);
  const BlockKernels& kernels = engine.block(type);
  const auto from = room.base.copy(base, distance);
  const auto to = room.next.copy(next, distance);

  std::vector<std::uint16_t> positions;
  Bytes steps;
  Bytes planes(next.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t a = get(base.data(), i, type.width_bytes);
    const std::uint64_t b = get(next.data(), i, type.width_bytes);
    const std::uint64_t step = step_by_the_page(a, b, type);
    for (std::size_t k = 0; k < width; ++k) planes[k * count + i] = static_cast<std::uint8_t>(step >> (8 * k));
    if (a == b) continue;
    positions.push_back(static_cast<std::uint16_t>(i));
    steps.resize(steps.size() + width);
    put(steps.data(), positions.size() - 1, type.width_bytes, step);
  }

  const auto found_positions = room.positions.last(2 * (count + 64), 2 * distance);
  const auto found_steps = room.steps.last(width * (count + 64), 8 * distance);
  const std::uint32_t changes = kernels.find_changes(
      from.data(), to.data(), count, reinterpret_cast<std::uint16_t*>(found_positions.data()), found_steps.data());
  if (changes != positions.size()) return "find_changes: count";
  if (changes != 0 && std::memcmp(found_positions.data(), positions.data(), 2 * changes) != 0) {
    return "find_changes: positions";
  }
  if (changes != 0 && std::memcmp(found_steps.data(), steps.data(), width * changes) != 0) return "find_changes: steps";

  const auto elements = room.elements.copy(base, distance);
  const std::span<const std::uint8_t> position_bytes(reinterpret_cast<const std::uint8_t*>(positions.data()),
                                                     2 * positions.size());
  const auto given_positions = room.positions.copy(position_bytes);
  kernels.apply_changes(elements.data(), reinterpret_cast<const std::uint16_t*>(given_positions.data()),
                        room.steps.copy(steps).data(), changes);
  if (!std::ranges::equal(elements, next)) return "apply_changes";

  const auto written = room.planes.last(next.size(), distance);
  kernels.split_steps(from.data(), to.data(), count, written.data());
  if (!std::ranges::equal(written, planes)) return "split_steps";

  room.elements.copy(base, distance);
  kernels.merge_steps(elements.data(), count, room.planes.copy(planes, distance).data());
  if (!std::ranges::equal(elements, next)) return "merge_steps";
  if (!std::ranges::equal(from, base) || !std::ranges::equal(to, next)) return "an input was written to";
  return nullptr;
}

}  // namespace

TEST_CASE("every engine does what the man page says, for every length to 200, alignment and element type") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Room room(200);
  for (const ElementType type : k_element_types) {
    for (std::size_t count = 0; count <= 200; ++count) {
      for (const double density : {0.0, 0.03, 0.5, 1.0}) {
        const Bytes base = random_bytes(random, count * type.width_bytes);
        const Bytes next = changed(base, type, density, random);
        each_usable_engine([&](const Engine& engine) {
          for (const std::size_t distance : {0, 1, 3, 8}) {
            const char* const wrong = wrong_with(engine, type, base, next, distance, room);
            if (wrong == nullptr) continue;
            CAPTURE(engine.name);
            CAPTURE(int{type.width_bytes});
            CAPTURE(int(type.kind));
            CAPTURE(count);
            CAPTURE(density);
            CAPTURE(distance);
            FAIL(wrong);
          }
        });
      }
    }
  }
}

TEST_CASE("every engine does what the man page says on whole blocks, sparse and dense") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Room room(k_block_elements);
  for (const ElementType type : k_element_types) {
    for (const std::size_t count : {std::size_t{1023}, std::size_t{1025}, std::size_t{65535}, std::size_t{65536}}) {
      for (const double density : {1e-4, 0.01, 0.1, 0.3, 1.0}) {
        const Bytes base = random_bytes(random, count * type.width_bytes);
        const Bytes next = changed(base, type, density, random);
        each_usable_engine([&](const Engine& engine) {
          CAPTURE(engine.name);
          CAPTURE(int{type.width_bytes});
          CAPTURE(count);
          CAPTURE(density);
          const char* const wrong = wrong_with(engine, type, base, next, 0, room);
          if (wrong != nullptr) FAIL(wrong);
        });
      }
    }
  }
}

TEST_CASE("every one of the 65,536 bf16 patterns changes into another and back") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Room room(k_block_elements);
  std::vector<std::uint16_t> patterns(65536);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  const auto bytes_of = [](const std::vector<std::uint16_t>& values) {
    Bytes bytes(2 * values.size());
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
  };
  const Bytes in_order = bytes_of(patterns);
  for (int round = 0; round < 3; ++round) {
    std::ranges::shuffle(patterns, random);
    const Bytes shuffled = bytes_of(patterns);
    each_usable_engine([&](const Engine& engine) {
      CAPTURE(engine.name);
      for (const ElementType type : {k_bf16, ElementType{2, ElementKind::integer}}) {
        CHECK(wrong_with(engine, type, in_order, shuffled, 0, room) == nullptr);
        CHECK(wrong_with(engine, type, shuffled, in_order, 0, room) == nullptr);
      }
    });
  }
}

TEST_CASE("zeros, infinities and NaN payloads are bits like any other") {
  Room room(400);
  const std::uint16_t special[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7f80, 0xff80, 0x7f81,
                                   0xff81, 0x7fc0, 0xffc0, 0x7fff, 0xffff, 0x3f80, 0xbf80};
  Bytes base;
  Bytes next;
  for (const std::uint16_t a : special) {
    for (const std::uint16_t b : special) {
      for (const int shift : {0, 8}) {
        base.push_back(static_cast<std::uint8_t>(a >> shift));
        next.push_back(static_cast<std::uint8_t>(b >> shift));
      }
    }
  }
  each_usable_engine([&](const Engine& engine) {
    CAPTURE(engine.name);
    CHECK(wrong_with(engine, k_bf16, base, next, 0, room) == nullptr);
  });
  CHECK(step_by_the_page(0x0000, 0x8000, k_bf16) == 1);
  CHECK(step_by_the_page(0x8000, 0x0000, k_bf16) == 2);
  CHECK(step_by_the_page(0x8000, 0x8001, k_bf16) == 1);
  CHECK(step_by_the_page(0x0000, 0x0001, k_bf16) == 2);
}

}  // namespace wdelta
