// SPDX-License-Identifier: Apache-2.0
// The kernels that make symbols of changes and changes of symbols, alone, on buffers that end where memory does.
#include "elements.hpp"
#include "engine/bits.hpp"
#include "engine/bucket.hpp"
#include "engine/class_map.hpp"
#include "engine/engine.hpp"
#include "engine/group_tables.hpp"
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

/// Classes of so many elements, 0xff behind them, some of them in long runs.
Bytes random_classes(std::mt19937_64& random, std::size_t count, std::uint32_t class_count) {
  Bytes classes(padded(count), 0xff);
  std::uint8_t k = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % (count % 3 == 0 ? 100 : 2) == 0) k = static_cast<std::uint8_t>(random() % class_count);
    classes[i] = k;
  }
  return classes;
}
}  // namespace

TEST_CASE("changes are ordered by class, those of a class as they come, for every length and width of steps") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(65536), Guarded(2 * 65536), Guarded(4 * 65536), Guarded(2 * 65536 + 64),
                     Guarded(4 * 65536 + 64)};
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t class_count : {1U, 2U, 7U, k_most_classes}) {
      Bytes classes = random_classes(random, count, class_count);
      classes.resize(count);
      // Members that do not change lie here and there.
      std::array<std::uint32_t, k_most_classes> ends{};
      std::vector<std::uint16_t> ranks(count);
      std::vector<std::uint16_t> gaps(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t& end = ends[classes[i]];
        gaps[i] =
            static_cast<std::uint16_t>(random() % 8 == 0 ? random() % std::max<std::size_t>(1, 65536 - count) / 64 : 0);
        if (end + gaps[i] > 65535) gaps[i] = 0;
        ranks[i] = static_cast<std::uint16_t>(end + gaps[i]);
        end = ranks[i] + 1U;
      }
      std::vector<std::size_t> order(count);
      for (std::size_t i = 0; i < count; ++i) order[i] = i;
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return classes[i]; });
      std::vector<std::uint16_t> ordered_gaps;
      for (const std::size_t i : order) ordered_gaps.push_back(gaps[i]);
      for (const std::uint8_t width_bytes : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}}) {
        const Bytes steps = random_bytes(random, count * width_bytes);
        Bytes ordered_steps;
        for (const std::size_t i : order) {
          for (std::size_t byte = 0; byte < width_bytes; ++byte) ordered_steps.push_back(steps[i * width_bytes + byte]);
        }
        each_usable_engine([&](const Engine& engine) {
          CAPTURE(engine.name);
          CAPTURE(count);
          CAPTURE(class_count);
          CAPTURE(int{width_bytes});
          const CodingKernels& coding = engine.kernels->coding;
          std::array<std::uint32_t, k_most_classes> class_changes{};
          class_changes.fill(77);
          std::array<std::uint32_t, k_most_classes> rank_ends = class_changes;
          const auto new_gaps = rooms[3].last(2 * (count + 32));
          const auto new_steps = rooms[4].last(count * width_bytes + 64);
          const auto changes = static_cast<std::uint32_t>(count);
          const ChangesInOrder in_order = {rooms[0].copy(classes).data(),
                                           typed<std::uint16_t>(rooms[1].copy(bytes_of(ranks))),
                                           rooms[2].copy(steps).data(), changes, class_count};
          const ChangesByClass by_class = {typed<std::uint16_t>(new_gaps), new_steps.data(), class_changes.data(),
                                           rank_ends.data()};
          coding.order_by_class(&in_order, width_bytes, &by_class);
          if (!std::ranges::equal(new_gaps.first(2 * count), bytes_of(ordered_gaps))) FAIL("other gaps");
          if (!std::ranges::equal(new_steps.first(ordered_steps.size()), ordered_steps)) FAIL("other steps");
          for (std::uint32_t k = 0; k < class_count; ++k) {
            if (class_changes[k] != static_cast<std::uint32_t>(std::ranges::count(classes, k))) FAIL("another count");
            if (rank_ends[k] != ends[k]) FAIL("another last rank");
          }
          for (std::uint32_t k = class_count; k < k_most_classes; ++k) {
            if (class_changes[k] != 77 || rank_ends[k] != 77) FAIL("something beyond the last class");
          }
          if (width_bytes != 1) return;
          coding.order_bytes_by_class(in_order.classes, changes, class_count, rooms[2].copy(steps).data(),
                                      new_steps.data());
          if (!std::ranges::equal(new_steps.first(count), ordered_steps)) FAIL("other bytes");
        });
      }
    }
  }
}

TEST_CASE("symbols are counted, for every length, and added to what was counted before") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded room(65536);
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t symbol_count : {1U, k_gap_buckets, k_step_symbols}) {
      Bytes symbols(count);
      for (std::uint8_t& symbol : symbols) {
        symbol = static_cast<std::uint8_t>(random() % 3 == 0 ? random() % symbol_count : 0);
      }
      std::vector<std::uint32_t> wanted(k_step_symbols);
      for (std::uint32_t i = 0; i < symbol_count; ++i) wanted[i] = i;
      for (const std::uint8_t symbol : symbols) ++wanted[symbol];
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CAPTURE(symbol_count);
        std::vector<std::uint32_t> counts(k_step_symbols);
        for (std::uint32_t i = 0; i < symbol_count; ++i) counts[i] = i;
        engine.kernels->coding.count_symbols(room.copy(symbols).data(), static_cast<std::uint32_t>(count), symbol_count,
                                             counts.data());
        CHECK(counts == wanted);
      });
    }
  }
}

TEST_CASE("gaps and steps of every width come apart into symbols and raw bits, the same from every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(4 * 65536), Guarded(4 * 65536), Guarded(65536), Guarded(65536), Guarded(7 * 65536)};
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t most_bits : {0U, 3U, 8U, 9U, 16U, 32U}) {
      std::vector<std::uint32_t> gaps(count);
      std::vector<std::uint32_t> steps(count);
      Bytes gap_symbols(count);
      Bytes step_symbols(count);
      Bytes raw;
      BitWriter writer(raw);
      for (std::size_t i = 0; i < count; ++i) {
        const auto some_bits = [&](std::uint32_t most) {
          const auto bits = static_cast<std::uint32_t>(random() % (most + 1));
          const std::uint64_t largest = (std::uint64_t{1} << bits) - 1;  // which a float may round up
          return static_cast<std::uint32_t>(random() % 8 == 0 ? largest : random() & largest);
        };
        gaps[i] = some_bits(std::min(most_bits, 19U));
        steps[i] = std::max(1U, some_bits(most_bits));
        const auto take_apart = [&](std::uint32_t number) {
          std::uint32_t bucket = 0;
          while (bucket < k_magnitude_buckets - 1 && bucket_begin(bucket + 1) <= number) ++bucket;
          writer.write(number - static_cast<std::uint32_t>(bucket_begin(bucket)), bucket_raw_bits(bucket));
          return bucket;
        };
        gap_symbols[i] = static_cast<std::uint8_t>(take_apart(gaps[i]));
        step_symbols[i] = static_cast<std::uint8_t>(2 * take_apart((steps[i] - 1) / 2) + steps[i] % 2);
      }
      const std::size_t whole_bytes = raw.size();
      writer.finish();
      // As narrow as they fit.
      const std::uint8_t width_bytes = most_bits <= 8 ? 1 : most_bits <= 16 ? 2 : 4;
      Bytes narrow(count * width_bytes);
      for (std::size_t i = 0; i < count; ++i) put(narrow.data(), i, width_bytes, steps[i]);
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CAPTURE(most_bits);
        const auto written = rooms[4].last((count * k_most_raw_bits + 7) / 8 + 8);
        const auto new_gaps = rooms[2].last(count);
        const auto new_steps = rooms[3].last(count);
        const std::uint64_t bits = engine.kernels->coding.split_raw_bits(
            typed<std::uint32_t>(rooms[0].copy(bytes_of(gaps))), rooms[1].copy(narrow).data(), width_bytes,
            static_cast<std::uint32_t>(count), new_gaps.data(), new_steps.data(), written.data());
        if (!std::ranges::equal(new_gaps, gap_symbols)) FAIL("other symbols of gaps");
        if (!std::ranges::equal(new_steps, step_symbols)) FAIL("other symbols of steps");
        if (bits / 8 != whole_bytes || (bits + 7) / 8 != raw.size()) FAIL("another number of raw bits");
        if (!std::ranges::equal(written.first(raw.size()), raw)) FAIL("other raw bits");
      });
    }
  }
}
TEST_CASE("buckets and raw bits make ranks and moves, class by class, for every element type") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(65536), Guarded(65536), Guarded(65536 * 7), Guarded(5 * 65536), Guarded(5 * 65536)};
  for (int round = 0; round < 1200; ++round) {
    const ElementType type = k_element_types[random() % 6];
    const auto class_count = static_cast<std::uint32_t>(1 + random() % k_most_classes);
    std::vector<std::uint32_t> class_changes(class_count);
    const std::uint64_t most = round % 20 == 0 ? 4096 : 40;
    for (std::uint32_t& changes : class_changes) changes = static_cast<std::uint32_t>(random() % most);
    // Gaps of all sorts, and often so large that ranks pass those of a strip; steps too, and often all of them small.
    const std::uint64_t gap_buckets = round % 2 == 0 ? 8 : k_gap_buckets;
    const std::uint64_t step_buckets = round % 3 == 0 ? 2UL * (8U * type.width_bytes - 1) : 4;
    Bytes gaps;
    Bytes steps;
    std::vector<std::uint32_t> ranks;
    Bytes moves;
    Bytes raw = random_bytes(random, std::size_t{k_most_raw_bits} * 4096 * class_count / 8 + 164);
    // Where those of a strip before end.
    const std::uint64_t begin = random() % 2 == 0 ? 0 : random() % 800;
    std::uint64_t at = begin;
    std::uint64_t last = 0;
    const auto take = [&](std::uint32_t bits) {
      std::uint64_t value = 0;
      for (std::uint32_t i = 0; i < bits; ++i, ++at) value |= std::uint64_t{raw[at / 8] >> (at % 8) & 1U} << i;
      return value;
    };
    for (const std::uint32_t changes : class_changes) {
      std::uint64_t next = 0;
      for (std::uint32_t i = 0; i < changes; ++i) {
        gaps.push_back(static_cast<std::uint8_t>(random() % gap_buckets));
        const std::uint64_t bucket = random() % step_buckets;
        steps.push_back(static_cast<std::uint8_t>(2 * bucket + random() % 2));
        next += bucket_begin(gaps.back()) + take(bucket_raw_bits(gaps.back()));
        ranks.push_back(static_cast<std::uint32_t>(next++));
        const std::uint64_t distance = 1 + bucket_begin(static_cast<std::uint32_t>(bucket)) +
                                       take(bucket_raw_bits(static_cast<std::uint32_t>(bucket)));
        moves.resize(moves.size() + type.width_bytes);
        put(moves.data(), ranks.size() - 1, type.width_bytes, steps.back() % 2 == 0 ? distance : 0 - distance);
      }
      last = std::max(last, next);
    }
    raw.resize((at + 7) / 8 + 64);
    each_usable_engine([&](const Engine& engine) {
      CAPTURE(engine.name);
      CAPTURE(round);
      const auto found_ranks = rooms[3].last(4 * (ranks.size() + 16));
      const auto found_moves = rooms[4].last(moves.size() + 16UL * type.width_bytes);
      std::uint64_t raw_bits = begin;
      const std::uint32_t room = engine.classed(type).join_raw_bits(
          rooms[0].copy(gaps).data(), rooms[1].copy(steps).data(), class_count, class_changes.data(),
          rooms[2].copy(raw).data(), typed<std::uint32_t>(found_ranks), found_moves.data(), &raw_bits);
      if (room != std::min<std::uint64_t>(last, 0xffffffff)) FAIL("another largest rank");
      if (raw_bits != at) FAIL("other raw bits");
      if (!std::ranges::equal(found_ranks.first(4 * ranks.size()), bytes_of(ranks))) FAIL("other ranks");
      if (!std::ranges::equal(found_moves.first(moves.size()), moves)) FAIL("other moves");
    });
  }
}

}  // namespace wdelta
