// SPDX-License-Identifier: Apache-2.0
// The kernels that look at the signs of a matrix, alone, on buffers that end where memory does.
#include "elements.hpp"
#include "engine/engine.hpp"
#include "guarded.hpp"
#include "kernel_rooms.hpp"

#include <algorithm>
#include <cstdlib>
#include <doctest/doctest.h>
#include <string>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

TEST_CASE("changes of a block are put into rows and columns, for every length, the same by every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint32_t k_first_change = 1000;
  Guarded rooms[] = {Guarded(2 * 65536), Guarded(4 * 65536), Guarded(5 * 65536), Guarded(5 * 65536),
                     Guarded(5 * 65536)};
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t row_elements : {2U, 3U, 100U, 4096U, 65535U, 65536U}) {
      // As far behind as blocks of a group begin, or at once.
      const auto first = static_cast<std::uint32_t>(random() % 2 == 0 ? (1U << 23) - 65536 : random() % row_elements);
      std::vector<std::uint16_t> positions(count);
      for (std::uint16_t& position : positions) position = static_cast<std::uint16_t>(random());
      std::ranges::sort(positions);
      if (count == 65536) {
        for (std::size_t i = 0; i < count; ++i) positions[i] = static_cast<std::uint16_t>(i);
      }
      for (const std::uint8_t width_bytes : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}}) {
        const std::vector<std::uint8_t> steps = random_bytes(random, count * width_bytes);
        for (const bool goes_on : {false, true}) {
          const std::uint32_t last_row = goes_on ? (first + positions.front()) / row_elements : ~std::uint32_t{0};
          std::vector<std::uint32_t> columns;
          std::vector<std::uint32_t> indices;
          std::vector<std::uint32_t> begins;
          std::uint32_t row_before = last_row;
          for (std::size_t i = 0; i < count; ++i) {
            const std::uint32_t at = first + positions[i];
            columns.push_back(2 * (at % row_elements) + (steps[i * width_bytes] & 1U));
            if (at / row_elements == row_before) continue;
            row_before = at / row_elements;
            indices.push_back(row_before);
            begins.push_back(k_first_change + static_cast<std::uint32_t>(i));
          }
          each_usable_engine([&](const Engine& engine) {
            CAPTURE(engine.name);
            CAPTURE(count);
            CAPTURE(row_elements);
            CAPTURE(int{width_bytes});
            CAPTURE(first);
            CAPTURE(goes_on);
            const auto found_columns = rooms[2].last(4 * (count + 16));
            const auto found_indices = rooms[3].last(4 * (count + 16));
            const auto found_begins = rooms[4].last(4 * (count + 16));
            const SignsOfBlock signs = {typed<std::uint16_t>(rooms[0].copy(bytes_of(positions))),
                                        rooms[1].copy(steps).data(),
                                        width_bytes,
                                        static_cast<std::uint32_t>(count),
                                        first,
                                        row_elements,
                                        last_row,
                                        k_first_change};
            const SignsInRows in_rows = {typed<std::uint32_t>(found_columns), typed<std::uint32_t>(found_indices),
                                         typed<std::uint32_t>(found_begins)};
            const std::uint32_t rows = engine.kernels->signs.list_rows(&signs, &in_rows);
            REQUIRE(rows == indices.size());
            if (!std::ranges::equal(found_columns.first(4 * count), bytes_of(columns))) FAIL("other columns");
            if (!std::ranges::equal(found_indices.first(4 * rows), bytes_of(indices))) FAIL("other rows");
            if (!std::ranges::equal(found_begins.first(4 * rows), bytes_of(begins))) FAIL("other beginnings");
          });
        }
      }
    }
  }
}

TEST_CASE("columns are weighed by their sums, however large, the same by every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(8 * 65536), Guarded(8 * 65536), Guarded(4 * 65536), Guarded(2 * 65536)};
  for (const std::size_t count : counts_of_elements()) {
    for (const int bits : {0, 1, 6, 7, 8, 20, 29}) {
      const auto up_to = [&](int width) { return static_cast<std::int32_t>(random() >> (63 - width) >> 1); };
      std::vector<std::int32_t> sums(2 * count);
      for (std::int32_t& sum : sums) sum = random() % 2 == 0 ? up_to(bits) : -up_to(bits);
      std::vector<std::int32_t> counts(2 * count);
      for (std::int32_t& each : counts) each = up_to(std::min(bits, 21));
      std::vector<std::int8_t> before;
      for (std::size_t i = 0; i < count; ++i) {
        before.push_back(static_cast<std::int8_t>(bits < 8 ? up_to(std::min(bits, 6)) : up_to(7) - 64));
        before.push_back(static_cast<std::int8_t>(-before.back()));
      }
      std::vector<std::int64_t> of_columns(count);
      std::int64_t largest = 0;
      for (std::size_t i = 0; i < count; ++i) {
        of_columns[i] = std::int64_t{sums[2 * i]} - sums[2 * i + 1] -
                        (std::int64_t{counts[2 * i]} + counts[2 * i + 1]) * before[2 * i];
        largest = std::max(largest, std::abs(of_columns[i]));
      }
      std::int64_t divisor = 1;
      while (largest / divisor > 127) divisor *= 2;
      std::vector<std::int8_t> weights;
      for (const std::int64_t sum : of_columns) {
        weights.push_back(static_cast<std::int8_t>(sum / divisor));
        weights.push_back(static_cast<std::int8_t>(-(sum / divisor)));
      }
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CAPTURE(bits);
        const auto found = rooms[3].copy(bytes_of(before));
        engine.kernels->signs.weigh_columns(typed<std::int32_t>(rooms[0].copy(bytes_of(sums))),
                                            typed<std::int32_t>(rooms[1].copy(bytes_of(counts))),
                                            static_cast<std::uint32_t>(count),
                                            typed<std::int32_t>(rooms[2].last(4 * count)), typed<std::int8_t>(found));
        if (!std::ranges::equal(found, bytes_of(weights))) FAIL("other weights");
      });
    }
  }
}

TEST_CASE("columns take the sign that most votes have, of rows as they are and as they are turned") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(8 * 65536), Guarded(65536 / 8), Guarded(65536 / 8)};
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t most : {0U, 1U, 3U, 0xffffU}) {
      std::vector<std::uint32_t> votes(2 * count);
      for (std::uint32_t& vote : votes) {
        const auto half = [&] { return static_cast<std::uint32_t>(random() % 4 == 0 ? most : random() % (most + 1)); };
        vote = half() | half() << 16;
      }
      std::uint64_t agreeing = 0;
      Bytes as_they_are((count + 7) / 8);
      Bytes as_turned((count + 7) / 8);
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t left[] = {votes[2 * i] & 0xffff, votes[2 * i + 1] & 0xffff};  // positive, negative
        const std::uint32_t turned[] = {votes[2 * i] >> 16, votes[2 * i + 1] >> 16};
        const std::uint32_t positive = left[0] + turned[0];
        const std::uint32_t negative = left[1] + turned[1];
        agreeing += std::max(positive, negative);
        const bool is_turned_negative = left[1] + turned[0] > left[0] + turned[1];
        as_they_are[i / 8] = static_cast<std::uint8_t>(as_they_are[i / 8] | (negative > positive ? 1 : 0) << i % 8);
        as_turned[i / 8] = static_cast<std::uint8_t>(as_turned[i / 8] | (is_turned_negative ? 1 : 0) << i % 8);
      }
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CAPTURE(most);
        const auto found_as_they_are = rooms[1].last((count + 7) / 8);
        const auto found_as_turned = rooms[2].last((count + 7) / 8);
        const FittedColumns fitted{found_as_they_are.data(), found_as_turned.data()};
        CHECK(engine.kernels->signs.fit_columns(typed<std::uint32_t>(rooms[0].copy(bytes_of(votes))),
                                                static_cast<std::uint32_t>(count), &fitted) == agreeing);
        if (!std::ranges::equal(found_as_they_are, as_they_are)) FAIL("other columns as they are");
        if (!std::ranges::equal(found_as_turned, as_turned)) FAIL("other columns as turned");
      });
    }
  }
}

TEST_CASE("negative signs are counted row by row, of rows of every length, the same by every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(4 * 65536), Guarded(4 * 65537), Guarded(4 * 65536)};
  for (const std::size_t rows : {0U, 1U, 2U, 7U, 300U}) {
    for (const std::uint32_t most : {1U, 14U, 63U, 64U, 65U, 128U, 700U}) {
      std::vector<std::uint32_t> begins = {0};
      for (std::size_t i = 0; i < rows; ++i) {
        const bool is_longest = random() % 4 == 0;
        begins.push_back(begins.back() + (is_longest ? most : 1 + static_cast<std::uint32_t>(random() % most)));
      }
      std::vector<std::uint8_t> signs(begins.back());
      for (std::uint8_t& sign : signs) sign = random() % 3 == 0 ? 1 : 0;
      std::vector<std::uint32_t> negatives;
      for (std::size_t i = 0; i < rows; ++i)
        negatives.push_back(static_cast<std::uint32_t>(
            std::count(signs.begin() + begins[i], signs.begin() + begins[i + 1], std::uint8_t{1})));
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(rows);
        CAPTURE(most);
        const auto found = rooms[2].last(4 * rows);
        engine.kernels->signs.count_negatives(rooms[0].copy(signs).data(),
                                              typed<std::uint32_t>(rooms[1].copy(bytes_of(begins))),
                                              static_cast<std::uint32_t>(rows), typed<std::uint32_t>(found));
        if (!std::ranges::equal(found, bytes_of(negatives))) FAIL("other numbers");
      });
    }
  }
}

TEST_CASE("symbols get other signs and keep the rest, for every length, the same by every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(65536), Guarded(65536)};
  for (const std::size_t count : counts_of_elements()) {
    const Bytes before = random_bytes(random, count);
    Bytes signs = random_bytes(random, count);
    for (std::uint8_t& sign : signs) sign &= 1;
    Bytes after = before;
    for (std::size_t i = 0; i < count; ++i) after[i] = static_cast<std::uint8_t>(before[i] / 2 * 2 + signs[i]);
    const auto negatives = static_cast<std::uint32_t>(std::ranges::count(signs, 1));
    each_usable_engine([&](const Engine& engine) {
      CAPTURE(engine.name);
      CAPTURE(count);
      const auto symbols = rooms[0].copy(before);
      CHECK(engine.kernels->signs.set_signs(symbols.data(), rooms[1].copy(signs).data(),
                                            static_cast<std::uint32_t>(count)) == negatives);
      if (!std::ranges::equal(symbols, after)) FAIL("other symbols");
    });
  }
}

}  // namespace
}  // namespace wdelta
