// SPDX-License-Identifier: Apache-2.0
#include "engine/skipped_rows.hpp"

#include "base/error.hpp"
#include "engine/element.hpp"
#include "engine/kept_rows.hpp"
#include "groups.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <numeric>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// By the page: where rows and blocks of a group end, one part begins.
std::vector<ElementRange> parts_by_the_page(const MatrixPlace& place, std::uint64_t elements) {
  std::vector<ElementRange> parts;
  for (std::uint64_t at = 0; at < elements; ++at) {
    if (at % k_block_elements == 0 || (place.first_element + at) % place.row_elements == 0) parts.push_back({at, at});
    ++parts.back().end;
  }
  return parts;
}

bool are_equal(std::span<const ElementRange> a, std::span<const ElementRange> b) {
  return std::ranges::equal(
      a, b, [](const ElementRange& x, const ElementRange& y) { return x.begin == y.begin && x.end == y.end; });
}

struct Group {
  MatrixPlace place;
  std::uint64_t elements;
};

std::vector<Group> groups() {
  std::vector<Group> groups;
  for (const std::uint64_t row : {2, 3, 100, 384, 4096, 65'535, 65'536}) {
    for (const std::uint64_t block : {0, 1, 5}) {
      for (const std::uint64_t elements : {std::uint64_t{1}, row, std::uint64_t{k_block_elements},
                                           std::uint64_t{k_block_elements} + 1, std::uint64_t{200'000}})
        groups.push_back({{row, block * k_block_elements}, elements});
    }
  }
  return groups;
}

}  // namespace

TEST_CASE("rows are cut where blocks are, and each part has a number") {
  for (const auto& [place, elements] : groups()) {
    CAPTURE(place.row_elements);
    CAPTURE(place.first_element);
    CAPTURE(elements);
    const auto expected = parts_by_the_page(place, elements);
    const RowParts parts(place, elements);
    REQUIRE(parts.count() == expected.size());
    for (std::size_t i = 0; i < expected.size(); i += 1 + expected.size() / 500) {
      const ElementRange part = parts.at(i);
      REQUIRE(part.begin == expected[i].begin);
      REQUIRE(part.end == expected[i].end);
      REQUIRE(parts.of(part.begin) == i);
      REQUIRE(parts.of(part.end - 1) == i);
    }
  }
}

TEST_CASE("rows that are told come back, in as many bits as are reckoned, and what is cut off is refused") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const auto& [place, elements] : groups()) {
    CAPTURE(place.row_elements);
    CAPTURE(place.first_element);
    CAPTURE(elements);
    const RowParts parts(place, elements);
    for (const unsigned one_of : {2, 20, 300}) {
      const auto all = parts_by_the_page(place, elements);
      SkippedRows skipped;
      std::vector<ElementRange> expected;
      std::uint32_t skipped_before = 0;
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (i == 0 || random() % one_of != 0) {
          ++skipped_before;
          continue;
        }
        skipped.numbers.push_back(std::exchange(skipped_before, 0));
        const bool goes_on = !expected.empty() && expected.back().end == all[i].begin;
        if (goes_on && all[i].begin % k_block_elements != 0) {
          expected.back().end = all[i].end;
        } else {
          expected.push_back(all[i]);
        }
      }
      if (skipped_before != 0) skipped.numbers.push_back(skipped_before);

      Bytes bytes;
      BitWriter writer(bytes);
      skipped.write(writer);
      writer.finish();
      REQUIRE((told_bits(skipped) + 7) / 8 == bytes.size());
      BitReader reader(bytes);
      const SkippedRows read = SkippedRows::read(reader, parts);
      REQUIRE(reader.is_at_end());
      REQUIRE(read.numbers == skipped.numbers);
      const auto kept = kept_ranges(read, parts);
      REQUIRE(are_equal(kept, expected));
      for (std::uint64_t block = 0; block * k_block_elements < elements; ++block) {
        std::vector<ElementRange> in_block;
        std::ranges::copy_if(expected, std::back_inserter(in_block),
                             [&](const ElementRange& range) { return range.begin / k_block_elements == block; });
        REQUIRE(are_equal(kept_in_block(kept, block), in_block));
      }
      const std::size_t cut = random() % bytes.size();
      CHECK(fault_of([&] {
              BitReader cut_off{std::span(bytes).first(cut)};
              SkippedRows::read(cut_off, parts);
            }) == Fault::corrupt);
    }
  }
}

TEST_CASE("rows that are more than there are, or none, are refused") {
  const RowParts parts({10, 0}, 100);
  const auto fault_of_numbers = [&](std::vector<std::uint32_t> numbers) {
    Bytes bytes;
    BitWriter writer(bytes);
    SkippedRows{std::move(numbers)}.write(writer);
    writer.finish();
    return fault_of([&] {
      BitReader reader(bytes);
      SkippedRows::read(reader, parts);
    });
  };
  CHECK(fault_of_numbers({3, 6}) == std::nullopt);  // one kept, and the last rows skipped
  CHECK(fault_of_numbers({10}) == std::nullopt);
  CHECK(fault_of_numbers({0, 0, 0, 0, 0, 0, 0, 0, 0, 1}) == std::nullopt);
  CHECK(fault_of_numbers({11}) == Fault::corrupt);
  CHECK(fault_of_numbers({3, 7}) == Fault::corrupt);
  CHECK(fault_of_numbers({std::uint32_t{1} << 29}) == Fault::corrupt);
  CHECK(fault_of_numbers({0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) == Fault::corrupt);
}

TEST_CASE("rows with changes are kept, wherever blocks cut them, and all changes stay where they are among these") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  KeptRows rows;
  for (const std::uint64_t row : {3, 100, 384, 50'000}) {
    const MatrixPlace place{row, 2 * k_block_elements};
    const Bytes base = random_bytes(random, 2 * 150'000);
    rows.begin(place, 2);
    const auto all = parts_by_the_page(place, 150'000);
    std::vector<std::uint32_t> numbers;
    std::uint32_t skipped_before = 0;
    for (std::uint64_t block = 0; block < 3; ++block) {
      const std::uint64_t begin = block * k_block_elements;
      const auto bytes =
          std::span(base).subspan(2 * begin, std::min<std::size_t>(2 * k_block_elements, base.size() - 2 * begin));
      std::vector<std::uint16_t> positions, moved;
      Bytes kept;
      for (const ElementRange& part : all) {
        if (part.begin / k_block_elements != block) continue;
        const bool is_kept = block != 1 && random() % 8 == 0;  // the second has no changes
        if (!is_kept) {
          ++skipped_before;
          continue;
        }
        numbers.push_back(std::exchange(skipped_before, 0));
        for (std::uint64_t element = part.begin; element < part.end; ++element) {
          if (element != part.end - 1 && random() % 5 != 0) continue;
          positions.push_back(static_cast<std::uint16_t>(element - begin));
          moved.push_back(static_cast<std::uint16_t>(kept.size() / 2 + element - part.begin));
        }
        kept.insert(kept.end(), base.begin() + std::ptrdiff_t(2 * part.begin),
                    base.begin() + std::ptrdiff_t(2 * part.end));
      }
      if (positions.empty()) continue;
      const FoundChanges found = rows.add(block, {bytes, positions, nullptr});
      REQUIRE(std::ranges::equal(found.base, kept));
      REQUIRE(std::ranges::equal(found.positions, moved));
    }
    if (skipped_before != 0) numbers.push_back(skipped_before);
    CHECK(rows.skipped(150'000).numbers == numbers);
  }
}

TEST_CASE("rows are skipped where changes lie in few of them, and where they lie anywhere not") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic), without_rows(BlockChoice::automatic);
  bool is_any_in_strips = false;
  for (const ElementType type : {k_bf16, ElementType{4, ElementKind::floating}, ElementType{1, ElementKind::integer}}) {
    for (const std::uint64_t row : {100, 384, 4096}) {
      for (const std::uint64_t one_of : {1, 12, 40}) {
        CAPTURE(int{type.width_bytes});
        CAPTURE(row);
        CAPTURE(one_of);
        const MatrixPlace place{row, 3 * k_block_elements};
        const Bytes base = weights(random, 5 * k_block_elements + 777, type);
        Bytes next = base;
        for (std::size_t i = 0; i < base.size() / type.width_bytes; ++i) {
          const std::size_t at = (i + place.first_element) / row - place.first_element / row;
          // The fourth block does not change.
          if (at % one_of != 0 || (one_of > 1 && i / k_block_elements == 3) || random() % (one_of == 1 ? 300 : 9) != 0)
            continue;
          put(next.data(), i, type.width_bytes,
              element_by_the_page(get(base.data(), i, type.width_bytes), 1 + random() % 2, type));
        }
        check(coders, base, next, type, place);
        const GroupShape shape = with_strips(shape_of(base.size(), type, place), coders.coded.blocks_in_strip);
        const GroupTables tables(coders.coded.parameters, shape);
        CHECK(tables.skips_rows() == (one_of > 1));
        is_any_in_strips |= tables.skips_rows() && coders.coded.blocks_in_strip > 1;
        check(without_rows, base, next, type);
        if (one_of > 1) CHECK(coders.size_bytes() < without_rows.size_bytes());
      }
    }
  }
  CHECK(is_any_in_strips);
}

}  // namespace wdelta
