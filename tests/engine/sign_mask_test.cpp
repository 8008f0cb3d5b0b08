// SPDX-License-Identifier: Apache-2.0
#include "engine/block.hpp"
#include "engine/change_symbols.hpp"
#include "groups.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <tuple>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// Changes of about this density whose ways follow columns, in some rows turned, but for a few.
Bytes moved(const Bytes& base, ElementType type, const MatrixPlace& place, bool has_turned_rows, double density,
            std::mt19937_64& random) {
  Bytes next = base;
  std::vector<std::uint8_t> columns = random_bytes(random, place.row_elements);
  const std::uint64_t count = base.size() / type.width_bytes;
  std::vector<std::uint8_t> rows = random_bytes(random, place.row_count(count));
  std::bernoulli_distribution changes(density);
  for (std::size_t i = 0; i < count; ++i) {
    if (!changes(random)) continue;
    const std::uint64_t at = place.first_element + i;
    const std::uint64_t row = at / place.row_elements - place.first_element / place.row_elements;
    std::uint64_t way = random() % 20 == 0 ? 1 : 0;
    way ^= columns[at % place.row_elements] & 1U;
    if (has_turned_rows) way ^= rows[row] & 1U;
    put(next.data(), i, type.width_bytes, element_by_the_page(get(base.data(), i, type.width_bytes), 2 - way, type));
  }
  return next;
}

}  // namespace

TEST_CASE("expanding gives each element the bits of its column and its row") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const std::uint64_t row : {2, 3, 7, 8, 9, 55, 56, 57, 63, 64, 65, 100, 512, 1000, 65535, 65536}) {
    for (int round = 0; round < 6; ++round) {
      const MatrixPlace place{row, random() % 200'000};
      const std::uint64_t first = random() % 3 * 65536;
      const auto count = static_cast<std::uint32_t>(round == 0 ? 65536 : 1 + random() % 65536);
      SignMask mask;
      if (round % 3 != 1) mask.columns = random_bytes(random, (row + 7) / 8);
      if (round % 3 != 2) mask.rows = random_bytes(random, (place.row_count(first + count) + 7) / 8);
      std::vector<std::uint64_t> flips((count + 63) / 64, random());
      expand_sign_mask(mask, place, first, count, flips);
      std::uint32_t wrong = 0;
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint64_t at = place.first_element + first + i;
        const std::uint64_t down = at / row - place.first_element / row;
        unsigned bit = mask.columns.empty() ? 0 : mask.columns[at % row / 8] >> (at % row % 8) & 1U;
        bit ^= mask.rows.empty() ? 0 : mask.rows[down / 8] >> (down % 8) & 1U;
        wrong += ((flips[i / 64] >> (i % 64)) & 1) != bit;
      }
      CAPTURE(row);
      CAPTURE(place.first_element);
      CAPTURE(first);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("symbols take signs, each that of its change, and those are counted") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Engine& engine = engines().back();
  constexpr std::uint32_t k_classes = 3;
  const ElementType type{1, ElementKind::floating};
  for (const auto& [row, has_columns, has_rows] :
       std::vector<std::tuple<std::uint64_t, bool, bool>>{{2, true, true},
                                                          {7, true, true},
                                                          {64, false, true},
                                                          {64, true, false},
                                                          {500, true, true},
                                                          {500, false, true},
                                                          {40'000, true, true},
                                                          {40'000, true, false}}) {
    const std::uint32_t blocks_in_strip = 1U << random() % 3;
    const MatrixPlace place{row, random() % 100'000};
    ChangeSymbols symbols;
    symbols.begin(place);
    std::vector<std::vector<std::uint16_t>> positions(3);
    std::vector<std::vector<std::uint8_t>> classes(3);
    std::vector<std::vector<std::uint8_t>> steps(3);
    for (std::uint32_t b = 0; b < 3; ++b) {
      std::array<std::uint16_t, k_classes> ranks_of_class{};
      std::vector<std::uint16_t> ranks;
      for (std::uint32_t i = static_cast<std::uint32_t>(random() % 40); i < k_block_elements;
           i += 1 + static_cast<std::uint32_t>(random() % 40)) {
        positions[b].push_back(static_cast<std::uint16_t>(i));
        classes[b].push_back(static_cast<std::uint8_t>(random() % k_classes));
        steps[b].push_back(static_cast<std::uint8_t>(1 + random() % 9));
        ranks.push_back(ranks_of_class[classes[b].back()]++);
      }
      std::array<std::uint32_t, k_most_classes> members{};
      std::ranges::copy(ranks_of_class, members.begin());
      symbols.add(*engine.kernels, type, k_classes, b,
                  {positions[b], steps[b].data(), ranks.data(), classes[b].data(), members.data()});
    }
    symbols.make(engine.kernels->coding, type, {0, 3, blocks_in_strip});
    SignMask mask;
    if (has_columns) mask.columns = random_bytes(random, (row + 7) / 8);
    if (has_rows) mask.rows = random_bytes(random, (place.row_count(3 * k_block_elements) + 7) / 8);
    const std::uint8_t* const flipped = symbols.steps_of(symbols.strips().front());
    const Bytes before(flipped, flipped + symbols.signs().size());
    Bytes signs;
    for (std::uint32_t b = 0; b < 3; ++b) {
      for (std::size_t i = 0; i < positions[b].size(); ++i) {
        const std::uint64_t at = place.first_element + b * k_block_elements + positions[b][i];
        const std::uint32_t of_row = mask_bit(mask.rows, at / row - place.first_element / row);
        signs.push_back(static_cast<std::uint8_t>((steps[b][i] & 1U) ^ mask_bit(mask.columns, at % row) ^ of_row));
      }
    }
    symbols.take_signs(*best_engine().kernels, signs);
    const auto distance = [](std::uint8_t symbol) { return symbol / 2; };
    CHECK(std::ranges::equal(std::span(flipped, before.size()), before, {}, distance, distance));
    std::array<std::uint32_t, k_most_classes> negatives{};
    std::size_t wrong = 0;
    for (const StripSymbols& strip : symbols.strips()) {
      const IndexRange blocks = Strips{0, 3, blocks_in_strip}.blocks_of(strip.strip);
      std::vector<std::uint64_t> flips((blocks.end - blocks.first) * k_block_elements / 64);
      for (std::uint64_t b = blocks.first; b < blocks.end; ++b) {
        expand_sign_mask(mask, place, b * k_block_elements, k_block_elements,
                         std::span(flips).subspan((b - blocks.first) * k_block_elements / 64));
      }
      std::size_t symbol = 0;
      for (std::uint8_t k = 0; k < k_classes; ++k) {
        for (std::uint64_t b = blocks.first; b < blocks.end; ++b) {
          for (std::size_t i = 0; i < positions[b].size(); ++i) {
            if (classes[b][i] != k) continue;
            const std::size_t position = (b - blocks.first) * k_block_elements + positions[b][i];
            const std::uint32_t sign = (steps[b][i] ^ (flips[position / 64] >> (position % 64))) & 1U;
            wrong += (symbols.steps_of(strip)[symbol++] & 1U) != sign;
            negatives[k] += sign;
          }
        }
      }
    }
    CAPTURE(blocks_in_strip);
    CAPTURE(row);
    CAPTURE(has_columns);
    CAPTURE(has_rows);
    CHECK(wrong == 0);
    for (std::uint32_t k = 0; k < k_classes; ++k) CHECK(symbols.counts()[k].negatives == negatives[k]);
  }
}

TEST_CASE("how the groups of a run are coded depends on that run alone, whatever its matrices are like") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint64_t k_row = 4096;
  constexpr std::uint64_t k_count = 20 * k_row;
  const Bytes base = random_bytes(random, 2 * k_count);
  GroupCoders coders(BlockChoice::automatic);
  std::size_t smaller_in_run = 0;
  for (int matrix = 0; matrix < 10; ++matrix) {
    const std::vector<std::uint8_t> columns = random_bytes(random, k_row);
    const auto next = [&](std::uint64_t apart, bool has_turned_rows) {
      Bytes moved = base;
      for (std::size_t i = 0; i < k_count; i += 1 + random() % apart) {
        const std::uint64_t way = (columns[i % k_row] ^ (has_turned_rows ? i / k_row : 0)) & 1U;
        put(moved.data(), i, 2, element_by_the_page(get(base.data(), i, 2), 2 - way, k_bf16));
      }
      return moved;
    };
    const Bytes plain = next(3, false);
    const Bytes faint = next(28, true);
    const MatrixPlace further{k_row, 8 * k_count};
    const auto code = [&](const Bytes& to, const MatrixPlace& place) {
      const std::string wrong = coders.wrong_with(base, to, k_bf16, place);
      if (!wrong.empty()) FAIL(wrong);
    };
    coders.begin_run();
    code(faint, further);
    const CodedGroup alone = coders.coded;
    coders.begin_run();
    code(plain, {k_row, 0});
    code(faint, further);
    smaller_in_run += coders.coded.bytes.size() < alone.bytes.size() ? 1 : 0;
    coders.begin_run();
    code(plain, {k_row, 0});
    coders.begin_run();
    code(faint, further);
    CHECK(coders.coded.parameters == alone.parameters);
    CHECK(coders.coded.bytes == alone.bytes);
  }
  CHECK(smaller_in_run > 0);
}

TEST_CASE("matrices with rows of any length come back, from the beginning or the middle of a row") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  for (const ElementType type : {k_bf16, ElementType{4, ElementKind::floating}, ElementType{1, ElementKind::floating},
                                 ElementType{2, ElementKind::integer}}) {
    for (const std::uint64_t row : {1, 2, 3, 63, 64, 65, 512, 65535, 65536, 65537}) {
      for (const std::uint64_t first_block : {0, 1, 37}) {
        const MatrixPlace place{row, first_block * k_block_elements};
        const std::size_t count = row == 512 ? 65536 : 2 * 65536 + 300;
        const Bytes base = random_bytes(random, count * type.width_bytes);
        for (const bool has_turned_rows : {false, true}) {
          const Bytes next = moved(base, type, place, has_turned_rows, 0.3, random);
          const std::string wrong = coders.wrong_with(base, next, type, place);
          CAPTURE(int{type.width_bytes});
          CAPTURE(row);
          CAPTURE(first_block);
          if (!wrong.empty()) FAIL(wrong);
        }
      }
    }
  }
}

TEST_CASE("the longest group has more short rows than 65,536, and they come back") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const ElementType type{1, ElementKind::floating};
  const std::size_t count = (4UL << 20) + 65536;  // what begins in a segment of 4 MiB
  const Bytes base = random_bytes(random, count);
  GroupCoders coders(BlockChoice::automatic);
  for (const std::uint64_t row : {2, 3, 16, 60}) {
    const MatrixPlace place{row, 65536};
    CAPTURE(row);
    const Bytes next = moved(base, type, place, false, 0.02, random);
    const std::string wrong = coders.wrong_with(base, next, type, place);
    if (!wrong.empty()) FAIL(wrong);
    const std::size_t with_rows = coders.size_bytes();
    CHECK(coders.wrong_with(base, next, type) == "");
    CHECK(with_rows < coders.size_bytes());
  }
}

}  // namespace wdelta
