// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "engine/block_chain.hpp"
#include "groups.hpp"
#include "guarded.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <set>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// Deltas that were made one after the other, all of the same blocks, and what comes of them.
struct Chain {
  struct Delta {
    CodedGroup coded;
    GroupShape shape;
  };
  ElementType type;
  MatrixPlace place;
  Bytes base;
  Bytes last;
  std::vector<Delta> deltas;

  void add(const Bytes& next, BlockChoice choice) {
    GroupEncoder encoder(best_engine(), choice);
    Delta& delta = deltas.emplace_back();
    encode_group(encoder, last, next, type, place, delta.coded);
    delta.shape = with_strips(shape_of(next.size(), type, place), delta.coded.blocks_in_strip);
    last = next;
  }

  /// Takes the base through all of them, so many blocks at a time.
  Bytes rebuilt(const Engine& engine, std::size_t blocks_at_a_time) const {
    BlockChain chain(engine);
    Bytes result;
    std::vector<DecodedGroup> decoded;
    for (const Delta& delta : deltas) decoded.emplace_back(engine, delta.coded, delta.shape);
    const std::size_t block_bytes = k_block_elements * type.width_bytes;
    const std::size_t blocks = (base.size() + block_bytes - 1) / block_bytes;
    const auto elements_of = [&](std::size_t block) {
      return std::span(base).subspan(block * block_bytes, std::min(block_bytes, base.size() - block * block_bytes));
    };
    for (std::size_t first = 0; first < blocks; first += blocks_at_a_time) {
      const std::size_t end = std::min(first + blocks_at_a_time, blocks);
      chain.begin(type);
      for (std::size_t i = 0; i < deltas.size(); ++i) {
        for (std::size_t block = first; block < end; ++block) decoded[i].add_to(chain, {block - first, i}, block);
      }
      for (std::size_t block = first; block < end; ++block) {
        Guarded memory(elements_of(block).size());
        const auto elements = memory.copy(elements_of(block));
        chain.apply(block - first, elements);
        result.insert(result.end(), elements.begin(), elements.end());
      }
    }
    return result;
  }
};

void check(const Chain& chain) {
  for (const Engine& engine : engines()) {
    if (!engine.usable()) continue;
    CAPTURE(engine.name);
    CAPTURE(int{chain.type.width_bytes});
    CAPTURE(int(chain.type.kind));
    for (const std::size_t blocks_at_a_time : {1, 3, 8}) CHECK(chain.rebuilt(engine, blocks_at_a_time) == chain.last);
  }
}

/// Weights with exponents next to each other, in reach of few steps of one unit.
Bytes near_the_edges_of_exponents(std::mt19937_64& random, std::size_t count, ElementType type) {
  Bytes bytes = random_bytes(random, count * type.width_bytes);
  const auto shift = static_cast<unsigned>(8 * type.width_bytes - (type.kind == ElementKind::floating ? 9 : 8));
  for (std::size_t i = 0; i < count && type.width_bytes > 1; ++i) {
    const std::uint64_t edge = (110 + random() % 12) << shift;
    const std::uint64_t sign = random() % 2 == 0 ? 0 : highest_bit(type);
    put(bytes.data(), i, type.width_bytes, (edge + random() % 16 - 8) | sign);
  }
  return bytes;
}

/// Small steps, many where the context is even and few where it is odd, so that classes pay; across the edges too.
Bytes moved(const Bytes& base, ElementType type, double density, std::mt19937_64& random) {
  Bytes next = base;
  const auto shift = static_cast<unsigned>(8 * type.width_bytes - (type.kind == ElementKind::floating ? 9 : 8));
  std::bernoulli_distribution often(density);
  std::bernoulli_distribution seldom(density / 20);
  for (std::size_t i = 0; i < base.size() / type.width_bytes; ++i) {
    const std::uint64_t element = get(base.data(), i, type.width_bytes);
    const bool is_even = type.width_bytes > 1 && (element >> shift) % 2 == 0;
    if (!(is_even ? often(random) : seldom(random))) continue;
    put(next.data(), i, type.width_bytes, element_by_the_page(element, 1 + random() % 6, type));
  }
  return next;
}

}  // namespace

TEST_CASE("a chain of classed blocks gives what its deltas give in turn, with every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    for (const std::size_t count : {200, 16384 + 50, 65536 + 1000, 5 * 65536}) {
      // In the end more come into other classes than are worth following.
      for (const double density : {0.002, 0.03, 0.9}) {
        Chain chain{type, {}, near_the_edges_of_exponents(random, count, type), {}, {}};
        chain.last = chain.base;
        for (int i = 0; i < 6; ++i) {
          chain.add(moved(chain.last, type, density, random),
                    type.width_bytes == 8 ? BlockChoice::automatic : BlockChoice::classed);
        }
        check(chain);
      }
    }
  }
}

TEST_CASE("blocks of other modes, strips, and blocks without changes may come between") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const BlockChoice choices[] = {BlockChoice::classed, BlockChoice::sparse,  BlockChoice::dense,
                                 BlockChoice::whole,   BlockChoice::classed, BlockChoice::afresh};
  for (const ElementType type : k_element_types) {
    Chain chain{type, {}, near_the_edges_of_exponents(random, 9 * 65536 + 77, type), {}, {}};
    chain.last = chain.base;
    for (int i = 0; i < 12; ++i) {
      const BlockChoice choice = i % 2 == 0 ? BlockChoice::classed : choices[random() % std::size(choices)];
      const double density = random() % 4 == 0 ? 0 : 0.02;
      chain.add(moved(chain.last, type, density, random), type.width_bytes == 8 ? BlockChoice::automatic : choice);
    }
    check(chain);
  }
}

TEST_CASE("deltas with more bounds than an engine can keep apart are taken a few at a time") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Chain chain{k_bf16, {}, random_bytes(random, 65536 * 2), {}, {}};
  chain.last = chain.base;
  std::set<std::uint8_t> bounds;
  for (int i = 0; i < 10; ++i) {
    // Each delta changes elements of other exponents.
    Bytes next = chain.last;
    for (std::size_t at = 0; at < 65536; ++at) {
      const std::uint64_t element = get(next.data(), at, 2);
      const std::uint64_t exponent = element >> 7 & 0xff;
      const std::uint64_t odds = exponent / 16 % 10 == static_cast<std::uint64_t>(i) ? 2 + exponent % 16 : 200;
      if (random() % odds == 0) put(next.data(), at, 2, element ^ 1);
    }
    chain.add(next, BlockChoice::classed);
    const Chain::Delta& delta = chain.deltas.back();
    const ClassBounds of_delta = GroupTables(delta.coded.parameters, delta.shape).parameters().bounds;
    bounds.insert(of_delta.begin(), of_delta.end());
  }
  REQUIRE(bounds.size() >= k_most_classes);
  check(chain);
}

TEST_CASE("there may be more deltas than an engine takes at once") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Chain chain{k_bf16, {}, near_the_edges_of_exponents(random, 20000, k_bf16), {}, {}};
  chain.last = chain.base;
  for (std::uint32_t i = 0; i < 2 * k_most_chained + 1; ++i)
    chain.add(moved(chain.last, k_bf16, 0.02, random), BlockChoice::classed);
  check(chain);
}

TEST_CASE("a delta that does not fit is the one that is named") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Bytes base = near_the_edges_of_exponents(random, 20000, k_bf16);
  Chain chain{k_bf16, {}, base, base, {}};
  for (int i = 0; i < 5; ++i) chain.add(moved(chain.last, k_bf16, 0.02, random), BlockChoice::classed);
  // Made where every other element was far below all of these, and changed.
  Bytes other = chain.last;
  for (std::size_t at = 0; at < 20000; at += 2) put(other.data(), at, 2, 1 + random() % 100);
  Bytes after = other;
  for (std::size_t at = 0; at < 20000; at += 2) put(after.data(), at, 2, get(other.data(), at, 2) + 1);
  chain.last = other;
  chain.add(after, BlockChoice::classed);
  std::swap(chain.deltas[2], chain.deltas.back());
  for (const Engine& engine : engines()) {
    if (!engine.usable()) continue;
    CAPTURE(engine.name);
    BlockChain blocks(engine);
    blocks.begin(k_bf16);
    std::vector<DecodedGroup> decoded;
    for (const Chain::Delta& delta : chain.deltas) decoded.emplace_back(engine, delta.coded, delta.shape);
    for (std::size_t i = 0; i < decoded.size(); ++i) decoded[i].add_to(blocks, {0, i}, 0);
    Bytes elements = base;
    CHECK_THROWS_WITH_AS(blocks.apply(0, elements), "a change lies outside its class", Error);
    CHECK(blocks.at() == 2);
  }
}

TEST_CASE("blocks from the middle of a strip on are refused, not patched wrong") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Chain chain{k_bf16, {}, near_the_edges_of_exponents(random, 4 * 65536, k_bf16), {}, {}};
  chain.last = chain.base;
  chain.add(moved(chain.last, k_bf16, 0.04, random), BlockChoice::classed);
  REQUIRE(chain.deltas.front().coded.blocks_in_strip == 4);
  const DecodedGroup decoded(best_engine(), chain.deltas.front().coded, chain.deltas.front().shape);
  BlockChain blocks(best_engine());
  Bytes elements(65536 * 2);
  for (const std::size_t block : {1, 0, 2}) {
    blocks.begin(k_bf16);
    decoded.add_to(blocks, {0, 0}, block);
    std::copy_n(chain.base.begin() + static_cast<std::ptrdiff_t>(block * elements.size()), elements.size(),
                elements.begin());
    if (block == 0) {
      blocks.apply(0, elements);
    } else {
      CHECK_THROWS_WITH_AS(blocks.apply(0, elements), "blocks are patched from the middle of a strip on", Error);
    }
  }
}

TEST_CASE("a chain of matrices whose signs are masked") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const MatrixPlace place{512, 0};
  Chain chain{k_bf16, place, near_the_edges_of_exponents(random, 65536, k_bf16), {}, {}};
  chain.last = chain.base;
  bool any_mask = false;
  for (int i = 0; i < 5; ++i) {
    Bytes next = chain.last;
    for (std::size_t at = 0; at < 65536; ++at) {
      const bool is_down = (at / 512 * 7 + i) % 3 == 0;
      if (random() % 20 == 0)
        put(next.data(), at, 2, element_by_the_page(get(next.data(), at, 2), is_down ? 1 : 2, k_bf16));
    }
    chain.add(next, BlockChoice::classed);
    const Chain::Delta& delta = chain.deltas.back();
    any_mask |= !GroupTables(delta.coded.parameters, delta.shape).parameters().mask.is_empty();
  }
  CHECK(any_mask);
  check(chain);
}

}  // namespace wdelta
