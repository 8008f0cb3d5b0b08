// SPDX-License-Identifier: Apache-2.0
#include "engine/afresh_block.hpp"
#include "frames.hpp"
#include "groups.hpp"
#include "guarded.hpp"

#include <algorithm>
#include <doctest/doctest.h>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// Weights with a normal distribution, as bf16 (and the high half of wider types).
Bytes normal_weights(std::mt19937_64& random, std::size_t count, ElementType type, float deviation) {
  std::normal_distribution<float> weight(0, deviation);
  Bytes bytes = random_bytes(random, count * type.width_bytes);
  for (std::size_t i = 0; i < count && type.width_bytes > 1; ++i) {
    const float value = weight(random);
    std::memcpy(bytes.data() + (i + 1) * type.width_bytes - 2, reinterpret_cast<const char*>(&value) + 2, 2);
  }
  return bytes;
}

/// What a block codes to by choice, and that it comes back over any base.
Bytes coded_afresh(const Bytes& next, ElementType type, const Bytes& base) {
  Bytes coded;
  for (const Engine& engine : engines()) {
    if (!engine.usable()) continue;
    Bytes again;
    BlockEncoder(engine, BlockChoice::afresh).encode(base, next, type, again);
    if (coded.empty()) coded = again;
    CHECK(coded == again);
    Bytes elements = base;
    BlockDecoder(engine).apply(coded, type, elements);
    CHECK(elements == next);
  }
  return coded;
}

}  // namespace

TEST_CASE("numbers of any width are packed bit by bit, the lowest first, and come back, and nothing else is touched") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (unsigned bits = 1; bits <= 8; ++bits) {
    for (std::size_t count = 0; count <= 70; ++count) {
      Bytes numbers = random_bytes(random, count);
      for (std::uint8_t& number : numbers) number = static_cast<std::uint8_t>(number & ((1U << bits) - 1));
      Bytes expected(packed_bytes(count, bits));
      for (std::size_t bit = 0; bit < count * bits; ++bit) {
        const unsigned set = numbers[bit / bits] >> (bit % bits) & 1U;
        expected[bit / 8] = static_cast<std::uint8_t>(expected[bit / 8] | set << bit % 8);
      }
      Guarded from(count);
      Bytes packed = {0xaa};
      append_packed(from.copy(numbers), bits, packed);
      REQUIRE(packed.front() == 0xaa);
      packed.erase(packed.begin());
      REQUIRE(packed == expected);

      Guarded packed_place(packed.size());
      Guarded numbers_place(count);
      const auto back = numbers_place.copy(Bytes(count, 0xff));
      REQUIRE(read_packed(packed_place.copy(packed), bits, back));
      REQUIRE(std::ranges::equal(back, numbers));
      for (std::size_t bit = count * bits; bit < 8 * packed.size(); ++bit) {
        Bytes loose = packed;
        loose.back() = static_cast<std::uint8_t>(loose.back() | 1U << bit % 8);
        REQUIRE_FALSE(read_packed(loose, bits, back));
      }
    }
  }
}

TEST_CASE("weights that start afresh take a third less, and a tensor of them says so in every block" *
          testing::needs_frames()) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  for (const float deviation : {0.001F, 0.02F, 0.3F}) {
    const Bytes next = normal_weights(random, 2 * k_block_elements + 9000, k_bf16, deviation);
    REQUIRE(coders.wrong_with(Bytes(next.size()), next, k_bf16) == "");
    CHECK(coders.coded.parameters.empty());
    for (const BlockSummary& block : coders.coded.blocks) CHECK(block.mode == BlockMode::afresh);
    CHECK(1.51 * static_cast<double>(coders.size_bytes()) < static_cast<double>(next.size()));
  }
}

TEST_CASE("of bits that all elements begin with none is coded twice, nor taken for what it is not") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    if (type.width_bytes == 1) continue;
    for (const std::size_t count : {1, 7, 100, 20000}) {
      const Bytes base = random_bytes(random, count * type.width_bytes);
      // All first bits the same, up to a point.
      for (unsigned alike = 0; alike <= 9; ++alike) {
        Bytes next(count * type.width_bytes);
        const std::uint64_t first = random();
        const auto free_bits = static_cast<unsigned>(8 * type.width_bytes - alike);
        for (std::size_t i = 0; i < count; ++i) {
          const std::uint64_t rest = ~std::uint64_t{0} >> (64 - free_bits);
          const std::uint64_t step = ((first & ~rest) | (random() & rest)) & all_bits(type);
          put(next.data(), i, type.width_bytes, element_by_the_page(0, step, type));
        }
        if (base == next) continue;
        const Bytes coded = coded_afresh(next, type, base);
        const unsigned shift = coded[1] & 7U;
        CHECK(shift <= 2);
        CHECK(shift >= std::min(alike, 2U));
        const std::size_t stored = 2 + type.width_bytes + (count * (8 * type.width_bytes - shift) + 7) / 8;
        CHECK(coded.size() <= stored);
      }
    }
  }
}

TEST_CASE("all patterns of two bytes come back from an afresh block") {
  Bytes next(131072);
  for (std::size_t i = 0; i < 65536; ++i) put(next.data(), i, 2, (i * 40503) & 0xffff);
  for (const ElementKind kind : {ElementKind::integer, ElementKind::floating}) {
    coded_afresh(next, {2, kind}, Bytes(next.size(), 0x11));
  }
}

TEST_CASE("planes that hold little are compressed one by one" * testing::needs_frames()) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  // Single precision made of bf16: its lower half is zeros, but for the sign, which comes to lie there.
  const ElementType type = {4, ElementKind::floating};
  Bytes next = normal_weights(random, k_block_elements, type, 0.02F);
  for (std::size_t i = 0; i < k_block_elements; ++i) next[4 * i] = next[4 * i + 1] = 0;
  CHECK(coded_afresh(next, type, Bytes(next.size())).size() < next.size() / 2 * 7 / 10);
  const Bytes ones(next.size(), 0x3f);
  CHECK(coded_afresh(ones, type, Bytes(next.size())).size() < 200);
}

TEST_CASE("what has changed all over is coded afresh where its steps say less than it does" * testing::needs_frames()) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::automatic);
  const std::size_t count = k_block_elements + 20000;
  const Bytes base = normal_weights(random, count, k_bf16, 0.02F);
  const Bytes other = normal_weights(random, count, k_bf16, 0.02F);
  REQUIRE(coders.wrong_with(base, other, k_bf16) == "");
  for (const BlockSummary& block : coders.coded.blocks) CHECK(block.mode == BlockMode::afresh);
  CHECK(1.5 * static_cast<double>(coders.size_bytes()) < static_cast<double>(base.size()));
  REQUIRE(coders.wrong_with(base, changed(base, k_bf16, 0.9, random), k_bf16) == "");
  for (const BlockSummary& block : coders.coded.blocks) CHECK(block.mode == BlockMode::classed);
}

TEST_CASE("blocks from zeros on and blocks from a base share a group, whichever of them are classed") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::unknown_bytes, BlockChoice::classed}) {
    GroupCoders coders(choice);
    for (const ElementType type : k_element_types) {
      for (int round = 0; round < 4; ++round) {
        const std::size_t count = 2 * k_block_elements + 500;
        Bytes base = normal_weights(random, count + 1, type, 0.1F);
        base.resize(count * type.width_bytes);
        const std::size_t block = std::size_t{k_block_elements} * type.width_bytes;
        Bytes next = changed(base, type, 0.05, random);
        // The first or the second starts afresh; all of it, or few of its elements.
        const std::size_t begin = block * static_cast<std::size_t>(round % 2);
        std::fill_n(base.begin() + static_cast<std::ptrdiff_t>(begin), block, std::uint8_t{0});
        if (round >= 2) std::fill_n(next.begin() + static_cast<std::ptrdiff_t>(begin), block * 3 / 4, std::uint8_t{0});
        CAPTURE(round);
        CAPTURE(int{type.width_bytes});
        REQUIRE(coders.wrong_with(base, next, type, {640, 0}) == "");
      }
    }
  }
}

}  // namespace wdelta
