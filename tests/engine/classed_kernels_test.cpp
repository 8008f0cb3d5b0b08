// SPDX-License-Identifier: Apache-2.0
// The kernels that put changes into classes and back into their places, alone, on buffers that end where memory does.
#include "elements.hpp"
#include "engine/class_map.hpp"
#include "engine/engine.hpp"
#include "guarded.hpp"
#include "kernel_rooms.hpp"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <string>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

ClassBounds random_bounds(std::mt19937_64& random, std::size_t count) {
  Bytes all(255);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i + 1);
  std::ranges::shuffle(all, random);
  all.resize(count);
  std::ranges::sort(all);
  return all;
}

std::uint8_t context_by_the_page(std::uint64_t element, ElementType type) {
  const unsigned bits = 8U * type.width_bytes;
  if (type.kind == ElementKind::integer) return static_cast<std::uint8_t>(element >> (bits - 8));
  return static_cast<std::uint8_t>(type.width_bytes == 1 ? element << 1 : element >> (bits - 9));
}

std::vector<std::uint16_t> random_positions(std::mt19937_64& random, std::size_t count, double density) {
  std::vector<std::uint16_t> positions;
  std::bernoulli_distribution changes(density);
  for (std::size_t i = 0; i < count; ++i) {
    if (changes(random)) positions.push_back(static_cast<std::uint16_t>(i));
  }
  return positions;
}

/// Changes of a block as a decoder has them, and what they make of it.
struct ClassedBlock {
  ElementType type;
  Bytes elements;
  ClassBounds bounds;
  std::vector<std::uint32_t> class_changes;
  std::vector<std::uint16_t> ranks;
  Bytes moves;
  std::vector<std::uint64_t> flips;  // none: null is given
  Bytes result;

  std::size_t count() const { return elements.size() / type.width_bytes; }
};

/// Bounds are far apart, or as close as weights have them.
ClassBounds classed_bounds(std::mt19937_64& random) {
  ClassBounds bounds = random_bounds(random, random() % k_most_classes);
  if (random() % 2 == 0 || bounds.empty()) return bounds;
  // From the first on 0 to 63, and 64 now and then.
  const auto first = static_cast<std::uint8_t>(1 + random() % 190);
  for (std::size_t i = 0; i < bounds.size(); ++i) bounds[i] = static_cast<std::uint8_t>(first + 4 * i);
  if (bounds.size() > 1) bounds.back() = static_cast<std::uint8_t>(first + 62 + random() % 3);
  return bounds;
}

ClassedBlock classed_block(std::mt19937_64& random, ElementType type, std::size_t count, double density) {
  ClassedBlock block;
  block.type = type;
  block.elements = random_bytes(random, count * type.width_bytes);
  block.bounds = classed_bounds(random);
  if (random() % 2 == 0) block.flips.resize((count + 63) / 64);
  for (std::uint64_t& flips : block.flips) flips = random();
  block.result = block.elements;
  std::array<std::vector<std::uint16_t>, k_most_classes> ranks;
  std::array<Bytes, k_most_classes> moves;
  std::array<std::uint32_t, k_most_classes> members{};
  std::bernoulli_distribution changes(density);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = get(block.elements.data(), i, type.width_bytes);
    const std::uint8_t k = class_of(context_by_the_page(element, type), block.bounds);
    const auto rank = static_cast<std::uint16_t>(members[k]++);
    if (!changes(random)) continue;
    const std::uint64_t move = random() % 2 == 0 ? random() & all_bits(type) : random() % 3 & all_bits(type);
    const bool is_flipped = !block.flips.empty() && (block.flips[i / 64] >> (i % 64) & 1) != 0;
    ranks[k].push_back(rank);
    moves[k].resize(moves[k].size() + type.width_bytes);
    put(moves[k].data(), ranks[k].size() - 1, type.width_bytes, move);
    const std::uint64_t moved = order(element, type) + (is_flipped ? 0 - move : move);
    put(block.result.data(), i, type.width_bytes, order(moved & all_bits(type), type));
  }
  for (std::size_t k = 0; k <= block.bounds.size(); ++k) {
    block.class_changes.push_back(static_cast<std::uint32_t>(ranks[k].size()));
    block.ranks.insert(block.ranks.end(), ranks[k].begin(), ranks[k].end());
    block.moves.insert(block.moves.end(), moves[k].begin(), moves[k].end());
  }
  return block;
}

/// Everything it reads and writes ends where memory does, but for `distance` bytes.
struct ClassedRoom {
  Guarded elements{4 * 65536 + 64};
  Guarded bounds{64};
  Guarded class_changes{64};
  Guarded ranks{2 * 65536 + 64};
  Guarded moves{4 * 65536 + 64};
  Guarded flips{8192};

  bool apply(const Engine& engine, const ClassedBlock& block, std::size_t distance) {
    const ClassedChanges changes = {
        bounds.copy(block.bounds).data(),
        static_cast<std::uint32_t>(block.bounds.size()),
        typed<std::uint32_t>(class_changes.copy(bytes_of(block.class_changes))),
        typed<std::uint16_t>(ranks.copy(bytes_of(block.ranks), distance)),
        moves.copy(block.moves, distance).data(),
        block.flips.empty() ? nullptr : typed<std::uint64_t>(flips.copy(bytes_of(block.flips)))};
    return engine.classed(block.type)
        .apply(elements.copy(block.elements, distance).data(), static_cast<std::uint32_t>(block.count()), &changes);
  }
};

}  // namespace

TEST_CASE("a change has the class of its context, and for a rank the elements of that class before it") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded element_room(4 * 65536 + 64);
  Guarded bound_room(16);
  Guarded change_class_room(65536);
  Guarded position_room(2 * 65536);
  Guarded rank_room(2 * 65536);
  for (const ElementType type : k_element_types) {
    if (type.width_bytes == 8) continue;
    for (const std::size_t count : counts_of_elements()) {
      for (const double density : {0.0, 0.002, 0.05, 0.5, 1.0}) {
        const ClassBounds bounds = classed_bounds(random);
        const Bytes content = random_bytes(random, count * type.width_bytes);
        const auto positions = random_positions(random, count, density);
        const auto changes = static_cast<std::uint32_t>(positions.size());
        std::vector<std::uint16_t> ranks;
        Bytes classes;
        std::array<std::uint32_t, 16> before{};
        std::size_t at = 0;
        const auto class_at = [&](std::size_t i) {
          return class_of(context_by_the_page(get(content.data(), i, type.width_bytes), type), bounds);
        };
        for (const std::uint16_t position : positions) {
          for (; at < position; ++at) ++before[class_at(at)];
          classes.push_back(static_cast<std::uint8_t>(class_at(position)));
          ranks.push_back(static_cast<std::uint16_t>(before[classes.back()]));
        }
        each_usable_engine([&](const Engine& engine) {
          for (const std::size_t distance : {0, 1, 7}) {
            CAPTURE(engine.name);
            CAPTURE(int{type.width_bytes});
            CAPTURE(int(type.kind));
            CAPTURE(count);
            CAPTURE(density);
            CAPTURE(distance);
            const auto written = rank_room.last(2 * changes);
            const auto classes_of_changes = change_class_room.last(changes);
            engine.block(type).rank_changes(element_room.copy(content, distance).data(),
                                            static_cast<std::uint32_t>(count), bound_room.copy(bounds).data(),
                                            static_cast<std::uint32_t>(bounds.size()),
                                            typed<std::uint16_t>(position_room.copy(bytes_of(positions))), changes,
                                            typed<std::uint16_t>(written), classes_of_changes.data());
            if (!std::ranges::equal(written, bytes_of(ranks))) FAIL("other ranks");
            if (!std::ranges::equal(classes_of_changes, classes)) FAIL("other classes");
          }
        });
      }
    }
  }
}

TEST_CASE("changes that are found and ranked at once are those found, then ranked") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const auto room_for = [](std::size_t width) { return Guarded(width * (65536 + 64) + 64); };
  Guarded base_room = room_for(4), next_room = room_for(4), bound_room(16);
  Guarded position_room = room_for(2), step_room = room_for(4), rank_room = room_for(2), class_room = room_for(1);
  for (const ElementType type : k_element_types) {
    if (type.width_bytes == 8) continue;
    const std::size_t width = type.width_bytes;
    for (const std::size_t count : counts_of_elements()) {
      for (const double density : {0.0, 0.0002, 0.01, 0.5, 1.0}) {
        const ClassBounds bounds = classed_bounds(random);
        const auto bound_count = static_cast<std::uint32_t>(bounds.size());
        const Bytes base = random_bytes(random, count * width);
        const auto positions = random_positions(random, count, density);
        const auto changes = static_cast<std::uint32_t>(positions.size());
        Bytes next = base;
        Bytes steps(changes * width);
        for (std::size_t i = 0; i < changes; ++i) {
          const std::uint64_t a = get(base.data(), positions[i], type.width_bytes);
          const std::uint64_t b = a ^ (1 + random() % 255);
          put(next.data(), positions[i], type.width_bytes, b);
          put(steps.data(), i, type.width_bytes, step_by_the_page(a, b, type));
        }
        Bytes ranks(2 * changes);
        Bytes classes(changes);
        engine_named("scalar").block(type).rank_changes(base.data(), static_cast<std::uint32_t>(count), bounds.data(),
                                                        bound_count, positions.data(), changes,
                                                        typed<std::uint16_t>(ranks), classes.data());
        each_usable_engine([&](const Engine& engine) {
          for (const std::size_t distance : {0, 1}) {
            const auto from = base_room.copy(base, distance);
            const auto to = next_room.copy(next, distance);
            const auto found_positions = position_room.last(2 * (count + 64), 2 * distance);
            const auto found_steps = step_room.last(width * (count + 64), 4 * distance);
            const auto found_ranks = rank_room.last(2 * (count + 64), 2 * distance);
            const auto found_classes = class_room.last(count + 64, distance);
            const std::uint32_t found = engine.block(type).find_ranked_changes(
                from.data(), to.data(), static_cast<std::uint32_t>(count), bound_room.copy(bounds).data(), bound_count,
                typed<std::uint16_t>(found_positions), found_steps.data(), typed<std::uint16_t>(found_ranks),
                found_classes.data());
            CAPTURE(engine.name);
            CAPTURE(int{type.width_bytes});
            CAPTURE(int(type.kind));
            CAPTURE(count);
            CAPTURE(density);
            CAPTURE(distance);
            REQUIRE(found == changes);
            if (!std::ranges::equal(found_positions.first(2 * found), bytes_of(positions))) FAIL("other positions");
            if (!std::ranges::equal(found_steps.first(width * found), steps)) FAIL("other steps");
            if (!std::ranges::equal(found_ranks.first(2 * found), ranks)) FAIL("other ranks");
            if (!std::ranges::equal(found_classes.first(found), classes)) FAIL("other classes");
          }
        });
      }
    }
  }
}

TEST_CASE("every context has its class, under any bounds") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  std::vector<std::uint16_t> all(65536);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  for (int round = 0; round < 40; ++round) {
    const ClassBounds bounds =
        round < 16 ? random_bounds(random, static_cast<std::size_t>(round)) : classed_bounds(random);
    for (const ElementKind kind : {ElementKind::integer, ElementKind::floating}) {
      each_usable_engine([&](const Engine& engine) {
        Bytes classes(65536);
        std::vector<std::uint16_t> ranks(65536);
        engine.block({2, kind}).rank_changes(all.data(), 65536, bounds.data(),
                                             static_cast<std::uint32_t>(bounds.size()), all.data(), 65536, ranks.data(),
                                             classes.data());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < 65536; ++i) {
          wrong += classes[i] != class_of(context_by_the_page(i, {2, kind}), bounds);
        }
        CAPTURE(engine.name);
        CAPTURE(round);
        CHECK(wrong == 0);
      });
    }
  }
}

TEST_CASE("moves reach the elements that have the ranks, for every length and element type") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  ClassedRoom room;
  for (const ElementType type : k_element_types) {
    if (type.width_bytes == 8) continue;
    for (const std::size_t count : counts_of_elements()) {
      for (const double density : {0.0, 0.01, 0.2, 1.0}) {
        const ClassedBlock block = classed_block(random, type, count, density);
        each_usable_engine([&](const Engine& engine) {
          for (const std::size_t distance : {0, 1, 6}) {
            CAPTURE(engine.name);
            CAPTURE(int{type.width_bytes});
            CAPTURE(int(type.kind));
            CAPTURE(count);
            CAPTURE(density);
            if (!room.apply(engine, block, distance)) FAIL("not all found");
            if (!std::ranges::equal(room.elements.last(block.result.size(), distance), block.result))
              FAIL("other elements");
          }
        });
      }
    }
  }
}

TEST_CASE("a rank that its class has not is noticed, whichever class it is") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  ClassedRoom room;
  for (const std::size_t count : counts_of_elements()) {
    ClassedBlock block = classed_block(random, k_bf16, count, 0);
    std::array<std::uint32_t, k_most_classes> members{};
    for (std::size_t i = 0; i < count; ++i) {
      ++members[class_of(context_by_the_page(get(block.elements.data(), i, 2), k_bf16), block.bounds)];
    }
    const std::size_t of = random() % (block.bounds.size() + 1);
    for (const std::uint32_t beyond : {members[of], members[of] + 1, 65535U}) {
      if (beyond > 65535 || beyond < members[of]) continue;
      std::ranges::fill(block.class_changes, 0U);
      block.class_changes[of] = 1;
      block.ranks = {static_cast<std::uint16_t>(beyond)};
      // One that is there, in the class behind.
      if (of < block.bounds.size() && members[of + 1] != 0) {
        block.ranks.push_back(0);
        block.class_changes[of + 1] = 1;
      }
      block.moves.resize(2 * block.ranks.size());
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CHECK(!room.apply(engine, block, 0));
      });
    }
  }
}

}  // namespace wdelta
