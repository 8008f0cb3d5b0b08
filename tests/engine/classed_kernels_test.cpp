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
#include <optional>
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

/// Changes of a strip as a decoder has them, and what they make of it.
struct ClassedStrip {
  ElementType type;
  Bytes elements;
  ClassBounds bounds;
  std::vector<std::uint32_t> class_changes;
  std::vector<std::uint32_t> ranks;
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

ClassedStrip classed_strip(std::mt19937_64& random, ElementType type, std::size_t count, double density) {
  ClassedStrip strip;
  strip.type = type;
  strip.elements = random_bytes(random, count * type.width_bytes);
  strip.bounds = classed_bounds(random);
  if (random() % 2 == 0) strip.flips.resize((count + 63) / 64);
  for (std::uint64_t& flips : strip.flips) flips = random();
  strip.result = strip.elements;
  std::array<std::vector<std::uint32_t>, k_most_classes> ranks;
  std::array<Bytes, k_most_classes> moves;
  std::array<std::uint32_t, k_most_classes> members{};
  std::bernoulli_distribution changes(density);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t element = get(strip.elements.data(), i, type.width_bytes);
    const std::uint8_t k = class_of(context_by_the_page(element, type), strip.bounds);
    const std::uint32_t rank = members[k]++;
    if (!changes(random)) continue;
    const std::uint64_t move = random() % 2 == 0 ? random() & all_bits(type) : random() % 3 & all_bits(type);
    const bool is_flipped = !strip.flips.empty() && (strip.flips[i / 64] >> (i % 64) & 1) != 0;
    ranks[k].push_back(rank);
    moves[k].resize(moves[k].size() + type.width_bytes);
    put(moves[k].data(), ranks[k].size() - 1, type.width_bytes, move);
    const std::uint64_t moved = order(element, type) + (is_flipped ? 0 - move : move);
    put(strip.result.data(), i, type.width_bytes, order(moved & all_bits(type), type));
  }
  for (std::size_t k = 0; k <= strip.bounds.size(); ++k) {
    strip.class_changes.push_back(static_cast<std::uint32_t>(ranks[k].size()));
    strip.ranks.insert(strip.ranks.end(), ranks[k].begin(), ranks[k].end());
    strip.moves.insert(strip.moves.end(), moves[k].begin(), moves[k].end());
  }
  return strip;
}

/// Everything it reads and writes ends where memory does, but for `distance` bytes.
struct ClassedRoom {
  Guarded elements{4 * 65536 + 64};
  Guarded bounds{64};
  Guarded class_changes{64};
  Guarded ranks{4 * 65536 + 64};
  Guarded moves{4 * 65536 + 64};
  Guarded flips{8192};

  /// Its blocks one after the other. Nothing where changes are left over.
  std::optional<Bytes> apply(const Engine& engine, const ClassedStrip& strip, std::size_t distance) {
    StripProgress progress{};
    ClassedChanges changes = {bounds.copy(strip.bounds).data(),
                              static_cast<std::uint32_t>(strip.bounds.size()),
                              typed<std::uint32_t>(class_changes.copy(bytes_of(strip.class_changes))),
                              typed<std::uint32_t>(ranks.copy(bytes_of(strip.ranks), distance)),
                              moves.copy(strip.moves, distance).data(),
                              nullptr,
                              &progress,
                              0};
    changes.blocks_left = static_cast<std::uint32_t>((strip.count() + k_block_elements - 1) / k_block_elements);
    const std::size_t block_bytes = std::size_t{k_block_elements} * strip.type.width_bytes;
    Bytes result;
    for (; changes.blocks_left > 0; --changes.blocks_left) {
      const auto left = std::span(strip.elements).subspan(result.size());
      const auto block = elements.copy(left.first(std::min(left.size(), block_bytes)), distance);
      const auto count = static_cast<std::uint32_t>(block.size() / strip.type.width_bytes);
      if (!strip.flips.empty()) {
        const auto words =
            std::span(strip.flips).subspan(result.size() / strip.type.width_bytes / 64, (count + 63) / 64);
        changes.flips = typed<std::uint64_t>(flips.copy(bytes_of(words)));
      }
      if (!engine.classed(strip.type).apply(block.data(), count, &changes)) return std::nullopt;
      result.insert(result.end(), block.begin(), block.end());
    }
    return result;
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
  Guarded member_room(64);
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
        if (positions.empty()) continue;
        const auto class_at = [&](std::size_t i) {
          return class_of(context_by_the_page(get(content.data(), i, type.width_bytes), type), bounds);
        };
        for (const std::uint16_t position : positions) {
          for (; at < position; ++at) ++before[class_at(at)];
          classes.push_back(static_cast<std::uint8_t>(class_at(position)));
          ranks.push_back(static_cast<std::uint16_t>(before[classes.back()]));
        }
        for (; at < count; ++at) ++before[class_at(at)];
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
            const auto members = member_room.last(16 * 4);
            engine.block(type).rank_changes(
                element_room.copy(content, distance).data(), static_cast<std::uint32_t>(count),
                bound_room.copy(bounds).data(), static_cast<std::uint32_t>(bounds.size()),
                typed<std::uint16_t>(position_room.copy(bytes_of(positions))), changes, typed<std::uint16_t>(written),
                classes_of_changes.data(), typed<std::uint32_t>(members));
            if (!std::ranges::equal(members, bytes_of(before))) FAIL("other members");
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
  Guarded member_room(64);
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
        std::array<std::uint32_t, k_most_classes> members{};
        if (changes > 0) {
          engine_named("scalar").block(type).rank_changes(base.data(), static_cast<std::uint32_t>(count), bounds.data(),
                                                          bound_count, positions.data(), changes,
                                                          typed<std::uint16_t>(ranks), classes.data(), members.data());
        }
        each_usable_engine([&](const Engine& engine) {
          for (const std::size_t distance : {0, 1}) {
            const auto from = base_room.copy(base, distance);
            const auto to = next_room.copy(next, distance);
            const auto found_positions = position_room.last(2 * (count + 64), 2 * distance);
            const auto found_steps = step_room.last(width * (count + 64), 4 * distance);
            const auto found_ranks = rank_room.last(2 * (count + 64), 2 * distance);
            const auto found_classes = class_room.last(count + 64, distance);
            const auto found_members = member_room.last(16 * 4);
            const std::uint32_t found = engine.block(type).find_ranked_changes(
                from.data(), to.data(), static_cast<std::uint32_t>(count), bound_room.copy(bounds).data(), bound_count,
                typed<std::uint16_t>(found_positions), found_steps.data(), typed<std::uint16_t>(found_ranks),
                found_classes.data(), typed<std::uint32_t>(found_members));
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
            if (found > 0 && !std::ranges::equal(found_members, bytes_of(members))) FAIL("other members");
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
        std::array<std::uint32_t, k_most_classes> members;
        engine.block({2, kind}).rank_changes(all.data(), 65536, bounds.data(),
                                             static_cast<std::uint32_t>(bounds.size()), all.data(), 65536, ranks.data(),
                                             classes.data(), members.data());
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

TEST_CASE("moves reach the elements that have the ranks, for every length and element type, through all of a strip") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  ClassedRoom room;
  for (const ElementType type : k_element_types) {
    if (type.width_bytes == 8) continue;
    std::vector<std::size_t> counts = counts_of_elements();
    for (const std::size_t blocks : {1, 3, 7}) counts.push_back(blocks * 65536 + 1 + random() % 65536);
    for (const std::size_t count : counts) {
      for (const double density : {0.0, 0.0001, 0.01, 0.2, 1.0}) {
        if (density * static_cast<double>(count) > 65536) continue;
        const ClassedStrip strip = classed_strip(random, type, count, density);
        each_usable_engine([&](const Engine& engine) {
          for (const std::size_t distance : {0, 1, 6}) {
            CAPTURE(engine.name);
            CAPTURE(int{type.width_bytes});
            CAPTURE(int(type.kind));
            CAPTURE(count);
            CAPTURE(density);
            const auto result = room.apply(engine, strip, distance);
            if (!result) FAIL("not all found");
            if (*result != strip.result) FAIL("other elements");
          }
        });
      }
    }
  }
}

TEST_CASE("a rank that its class has not is noticed, whichever class it is, in the last block of a strip") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  ClassedRoom room;
  std::vector<std::size_t> counts = counts_of_elements();
  counts.push_back(3 * 65536 + 100);
  for (const std::size_t count : counts) {
    ClassedStrip strip = classed_strip(random, k_bf16, count, 0);
    std::array<std::uint32_t, k_most_classes> members{};
    for (std::size_t i = 0; i < count; ++i) {
      ++members[class_of(context_by_the_page(get(strip.elements.data(), i, 2), k_bf16), strip.bounds)];
    }
    const std::size_t of = random() % (strip.bounds.size() + 1);
    for (const std::uint32_t beyond : {members[of], members[of] + 1, 65535U, 0xffff0000U}) {
      if (beyond < members[of]) continue;
      std::ranges::fill(strip.class_changes, 0U);
      strip.class_changes[of] = 1;
      strip.ranks = {beyond};
      // One that is there, in the class behind.
      if (of < strip.bounds.size() && members[of + 1] != 0) {
        strip.ranks.push_back(0);
        strip.class_changes[of + 1] = 1;
      }
      strip.moves.resize(2 * strip.ranks.size());
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CHECK(!room.apply(engine, strip, 0));
      });
    }
  }
}

}  // namespace wdelta
