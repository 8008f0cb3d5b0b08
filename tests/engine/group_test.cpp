// SPDX-License-Identifier: Apache-2.0
#include "engine/group.hpp"

#include "groups.hpp"

#include <doctest/doctest.h>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

constexpr BlockChoice k_group_choices[] = {BlockChoice::automatic, BlockChoice::classed, BlockChoice::unknown_bytes,
                                           BlockChoice::sparse, BlockChoice::afresh};

}  // namespace

TEST_CASE("decoding undoes encoding for short groups, the same bytes from every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const BlockChoice choice : k_group_choices) {
    GroupCoders coders(choice);
    for (const ElementType type : k_element_types) {
      for (std::size_t count = 1; count <= 200; ++count) {
        const double densities[] = {0.0, 0.01, 0.1, 0.5, 1.0};
        const double density = densities[random() % std::size(densities)];
        const Bytes base = random_bytes(random, count * type.width_bytes);
        CAPTURE(density);
        check(coders, base, changed(base, type, density, random), type);
      }
    }
  }
}

TEST_CASE("decoding undoes encoding at every density, from one block to several, the same bytes from every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::classed}) {
    GroupCoders coders(choice);
    for (const ElementType type : k_element_types) {
      for (const std::size_t count : {65535, 65536, 65537, 3 * 65536 + 77}) {
        for (const double density : {0.0001, 0.003, 0.01, 0.12, 0.5, 1.0}) {
          const Bytes base = weights(random, count, type);
          CAPTURE(density);
          check(coders, base, changed(base, type, density, random), type);
          if (type.width_bytes == 8) CHECK(coders.coded.parameters.empty());
          // At the lowest density it may be that nothing changed.
          if (choice == BlockChoice::classed && type.width_bytes < 8 && !coders.coded.bytes.empty()) {
            CHECK(!coders.coded.parameters.empty());
          }
        }
      }
    }
  }
}

TEST_CASE("blocks without changes lie between others, first and last") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  for (const ElementType type : {k_bf16, ElementType{1, ElementKind::integer}}) {
    const std::size_t block = std::size_t{k_block_elements} * type.width_bytes;
    const Bytes base = weights(random, 5 * k_block_elements + 100, type);
    const Bytes all = changed(base, type, 0.05, random);
    for (unsigned changing = 0; changing < 64; ++changing) {
      Bytes next = base;
      each_block_of(base.size(), type, [&](std::size_t number, std::size_t begin, std::size_t size) {
        if ((changing >> number & 1) != 0)
          std::copy_n(all.begin() + std::ptrdiff_t(number * block), size, next.begin() + std::ptrdiff_t(begin));
      });
      CAPTURE(changing);
      check(coders, base, next, type);
    }
  }
}

TEST_CASE("blocks of one group may have as different numbers of changes as there are") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::classed);
  const ElementType type{1, ElementKind::integer};
  const Bytes base = weights(random, 12 * k_block_elements, type);
  for (int round = 0; round < 4; ++round) {
    Bytes next = base;
    for (std::size_t block = 0; block < 12; ++block) {
      // From one change to all, in no order.
      const std::size_t apart = std::size_t{1} << (round == 0 ? block % 2 * 16 : random() % 17);
      for (std::size_t i = 0; i < k_block_elements; i += apart) next[block * k_block_elements + i] ^= 1;
    }
    check(coders, base, next, type);
  }
}

TEST_CASE("strips of few changes share batches, up to 64 of them and up to 65,536 changes") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  const ElementType type{1, ElementKind::integer};
  constexpr std::size_t k_blocks = 70;
  const Bytes base = weights(random, k_blocks * k_block_elements - 1000, type);
  // Somewhere in each stretch of so many elements, so that there are never more changes than expected.
  const auto nudged = [&](Bytes& bytes, std::size_t apart) {
    for (std::size_t i = 0; i + apart <= bytes.size(); i += apart) ++bytes[i + random() % apart];
  };
  Bytes next = base;
  nudged(next, 20000);
  // No strip of several blocks: what lies before the changes of every other block is not known.
  for (std::size_t block = 0; block < k_blocks; block += 2)
    std::copy_n(base.begin() + block * k_block_elements, k_block_elements, next.begin() + block * k_block_elements);
  check(coders, base, next, type);
  CHECK(coders.coded.blocks_in_strip == 1);
  CHECK(coders.coded.strips_in_batch == 64);
  CHECK(coders.coded.batch_bytes.size() == 2);

  // As dense as the most that still has batches, but for a stretch that changes nearly all over.
  next = base;
  nudged(next, 252);
  check(coders, base, next, type);
  CHECK(coders.coded.blocks_in_strip > 1);
  CHECK(coders.coded.strips_in_batch > 1);
  for (std::size_t i = 0; i < 2 * k_block_elements; ++i) {
    if (random() % 5 < 2) ++next[33 * k_block_elements + i];
  }
  check(coders, base, next, type);
  CHECK(coders.coded.blocks_in_strip > 1);

  // More of it, until a batch would have too many.
  const Bytes zeros(k_blocks * k_block_elements);
  next = zeros;
  for (std::size_t block = 0; block < k_blocks; ++block) next[block * k_block_elements + 7 * block] = 1;
  std::fill_n(next.begin() + 33 * k_block_elements, 2 * k_block_elements, std::uint8_t{3});
  GroupCoders classed(BlockChoice::classed);
  check(classed, zeros, next, type);
  CHECK(classed.coded.blocks_in_strip == 1);
  CHECK(classed.coded.strips_in_batch == 1);
}

TEST_CASE("groups begin anywhere in a strip, and end anywhere") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::classed);
  for (const ElementType type : k_element_types) {
    if (type.width_bytes == 8) continue;
    for (std::uint64_t first = 0; first < k_most_blocks_in_strip; ++first) {
      const Bytes base = weights(random, (1 + random() % 9) * k_block_elements + random() % 70'000, type);
      Bytes next = base;
      const std::size_t apart = std::size_t{50} << random() % 12;
      for (std::size_t i = 0; i < base.size() / type.width_bytes; i += 1 + random() % (2 * apart))
        put(next.data(), i, type.width_bytes,
            element_by_the_page(get(base.data(), i, type.width_bytes), 1 + random() % 5, type));
      check(coders, base, next, type, {0, first * k_block_elements});
    }
  }
}

TEST_CASE("a short last block that changes all over leaves the others their strips") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  const Bytes base = weights(random, 5 * k_block_elements + 300, k_bf16);
  Bytes next = base;
  for (std::size_t i = 0; i < base.size() / 2; ++i) {
    if (i < 5 * k_block_elements && random() % 40 != 0) continue;
    put(next.data(), i, 2, element_by_the_page(get(base.data(), i, 2), 1 + random() % 4, k_bf16));
  }
  check(coders, base, next, k_bf16);
  CHECK(coders.coded.blocks_in_strip == 4);
}

TEST_CASE("gaps of a class may be nearly as long as a strip") {
  GroupCoders coders(BlockChoice::classed);
  const ElementType type{1, ElementKind::integer};
  constexpr std::size_t k_blocks = 2 * k_most_blocks_in_strip;
  Bytes base(k_blocks * k_block_elements, 7);
  // The first element of each block changes, in a class of its own; of all others only the last of each strip.
  for (std::size_t block = 0; block < k_blocks; ++block) base[block * k_block_elements] = 200;
  Bytes next = base;
  for (std::size_t block = 0; block < k_blocks; ++block) next[block * k_block_elements] = 201;
  for (const std::size_t end : {k_blocks / 2, k_blocks}) next[end * k_block_elements - 1] = 8;
  check(coders, base, next, type);
  REQUIRE(coders.coded.blocks_in_strip == k_most_blocks_in_strip);
  const GroupShape shape = with_strips(shape_of(base.size(), type, {}), k_most_blocks_in_strip);
  const GroupParameters parameters = GroupTables(coders.coded.parameters, shape).parameters();
  CHECK(std::ranges::any_of(parameters.classes,
                            [](const ClassCoding& each) { return each.gap_buckets == k_gap_buckets; }));
}

TEST_CASE("strips are longer where few elements change") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  const Bytes base = weights(random, 9 * k_block_elements, k_bf16);
  for (const auto& [one_in, blocks_in_strip] : {std::pair{30U, 4U}, {50U, 4U}, {80U, 8U}, {200U, 16U}, {1000U, 32U}}) {
    Bytes next = base;
    for (std::size_t i = 0; i < base.size() / 2; ++i) {
      if (random() % one_in == 0) put(next.data(), i, 2, element_by_the_page(get(base.data(), i, 2), 1, k_bf16));
    }
    check(coders, base, next, k_bf16);
    CHECK(coders.coded.blocks_in_strip == blocks_in_strip);
  }
}

TEST_CASE("signs of matrices are masked in batches too") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  const MatrixPlace place{640, 3 * k_block_elements};
  const Bytes base = weights(random, 5 * k_block_elements + 640, k_bf16);
  Bytes next = base;
  for (std::size_t i = 0; i < base.size() / 2; ++i) {
    if (random() % 80 != 0) continue;
    put(next.data(), i, 2, element_by_the_page(get(base.data(), i, 2), 1 + i % 640 % 2, k_bf16));
  }
  check(coders, base, next, k_bf16, place);
  CHECK(coders.coded.blocks_in_strip > 1);
  const GroupShape shape = with_strips(shape_of(base.size(), k_bf16, place), coders.coded.blocks_in_strip);
  const GroupTables tables(coders.coded.parameters, shape);
  CHECK(!tables.parameters().mask.is_empty());
}

TEST_CASE("bits that flip at random in bytes take no more than positions and steps do alone") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const ElementType type{1, ElementKind::integer};
  const Bytes base = random_bytes(random, 4 * k_block_elements);
  Bytes next = base;
  for (std::uint8_t& byte : next) {
    if (random() % 50 == 0) byte ^= static_cast<std::uint8_t>(1U << random() % 8);
  }
  GroupCoders sparse(BlockChoice::sparse);
  check(sparse, base, next, type);
  GroupCoders automatic(BlockChoice::automatic);
  check(automatic, base, next, type);
  CHECK(automatic.size_bytes() <= sparse.size_bytes());
}

TEST_CASE("steps come back, from one to the lowest and the highest number, across zero, minus zero and NaN") {
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::classed}) {
    GroupCoders coders(choice);
    for (const ElementType type : k_classed_types) {
      const std::uint64_t most = all_bits(type);
      const std::uint64_t half = highest_bit(type);
      const std::uint64_t numbers[] = {0,    1,        2,        half,     half + 1,       half - 1,
                                       most, most - 1, most / 3, half / 2, half + half / 2};
      for (const std::size_t repeats : {1, 20}) {
        Bytes base;
        Bytes next;
        for (std::size_t round = 0; round < repeats; ++round) {
          for (const std::uint64_t from : numbers) {
            for (const std::uint64_t to : numbers) {
              base.resize(base.size() + type.width_bytes);
              next.resize(base.size());
              put(base.data(), base.size() / type.width_bytes - 1, type.width_bytes, from);
              put(next.data(), base.size() / type.width_bytes - 1, type.width_bytes, to);
            }
          }
        }
        check(coders, base, next, type);
      }
    }
  }
}

TEST_CASE("every distance of a small element and every power of two of a large one comes back, up and down") {
  GroupCoders coders(BlockChoice::classed);
  for (const ElementType type : k_classed_types) {
    Bytes base(65536UL * type.width_bytes);
    Bytes next = base;
    for (std::size_t i = 0; i < 65536; ++i) {
      std::uint64_t distance = i / 2;
      if (type.width_bytes == 4) distance = (std::uint64_t{1} << (i / 2 % 32)) + i % 7 - 3;
      put(next.data(), i, type.width_bytes, element_by_the_page(0, (2 * distance + i % 2) & all_bits(type), type));
    }
    check(coders, base, next, type);
  }
}

TEST_CASE("gaps come back, up to all of a block and all of a class") {
  GroupCoders coders(BlockChoice::classed);
  for (const ElementType type : k_classed_types) {
    for (const std::size_t gap :
         {0, 1, 2, 3, 4, 5, 6, 7, 8, 255, 256, 257, 1000, 32767, 32768, 49151, 49152, 65534, 65535}) {
      Bytes base(65536UL * type.width_bytes);
      // A second class, which lies in between and changes at another pace.
      for (std::size_t i = 0; i < 65536; i += 3) put(base.data(), i, type.width_bytes, all_bits(type) / 2);
      for (const bool again : {false, true}) {
        Bytes next = base;
        for (std::size_t i = gap; i < 65536; i += gap + 1) {
          put(next.data(), i, type.width_bytes, get(base.data(), i, type.width_bytes) ^ 1);
          if (!again) break;
        }
        CAPTURE(gap);
        CAPTURE(again);
        check(coders, base, next, type);
      }
    }
  }
}

TEST_CASE("all of the 65,536 patterns of two bytes change into any other") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::classed}) {
    GroupCoders coders(choice);
    std::vector<std::uint16_t> patterns(65536);
    for (std::size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<std::uint16_t>(i);
    Bytes base(131072);
    Bytes next(131072);
    for (int round = 0; round < 2; ++round) {
      std::memcpy(base.data(), patterns.data(), base.size());
      std::ranges::shuffle(patterns, random);
      std::memcpy(next.data(), patterns.data(), next.size());
      for (const ElementType type : {k_bf16, ElementType{2, ElementKind::integer}}) check(coders, base, next, type);
    }
  }
}

TEST_CASE("what changes at random all over is not larger than the elements as they are") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::unknown_bytes}) {
    GroupCoders coders(choice);
    for (const ElementType type : k_element_types) {
      for (const std::size_t count : {1, 50, 127, 600, 5000, 65536, 2 * 65536 + 300}) {
        for (const double density : {0.6, 0.9, 1.0}) {
          const Bytes base = random_bytes(random, count * type.width_bytes);
          Bytes next = random_bytes(random, count * type.width_bytes);
          for (std::size_t i = 0; i < count; ++i) {
            if (random() % 100 >= std::uint64_t(100 * density)) {
              put(next.data(), i, type.width_bytes, get(base.data(), i, type.width_bytes));
            }
          }
          CAPTURE(density);
          check(coders, base, next, type);
          // Each block has its mode in front.
          CHECK(coders.size_bytes() <= next.size() + coders.coded.blocks.size());
        }
      }
    }
  }
}

TEST_CASE("a choice of one mode is kept to") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const auto& [choice, mode] : {std::pair{BlockChoice::sparse, BlockMode::sparse},
                                     {BlockChoice::dense, BlockMode::dense},
                                     {BlockChoice::whole, BlockMode::whole},
                                     {BlockChoice::afresh, BlockMode::afresh},
                                     {BlockChoice::classed, BlockMode::classed}}) {
    GroupCoders coders(choice);
    for (const ElementType type : k_classed_types) {
      for (const std::size_t count : {5, 3000, 70000}) {
        for (const double density : {0.01, 1.0}) {
          const Bytes base = weights(random, count, type);
          check(coders, base, changed(base, type, density, random), type);
          for (const BlockSummary& block : coders.coded.blocks) CHECK((block.mode == mode || block.changes == 0));
        }
      }
    }
  }
}

}  // namespace wdelta
