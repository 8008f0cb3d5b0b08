// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "elements.hpp"
#include "engine/block.hpp"
#include "frames.hpp"
#include "guarded.hpp"

#include <doctest/doctest.h>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

constexpr BlockChoice k_known_choices[] = {BlockChoice::automatic, BlockChoice::sparse, BlockChoice::dense,
                                           BlockChoice::whole, BlockChoice::afresh};

/// Applies broken blocks to elements that lie between forbidden pages, from bytes that do.
class BlockVictim {
 public:
  BlockVictim(const Engine& engine, const Bytes& base, ElementType type)
      : decoder_(engine), base_(base), type_(type), elements_(base.size()), coded_(12 * k_block_elements) {}

  enum class Outcome { taken, refused };

  Outcome suffer(std::span<const std::uint8_t> coded) {
    const auto elements = elements_.copy(base_);
    try {
      decoder_.apply(coded_.copy(coded), type_, elements);
      return Outcome::taken;
    } catch (const Error& error) {
      if (error.fault() != Fault::corrupt || !error.object().empty()) FAIL(error.what());
      return Outcome::refused;
    }
  }

 private:
  BlockDecoder decoder_;
  Bytes base_;
  ElementType type_;
  Guarded elements_;
  Guarded coded_;
};

template <class Visit>
void each_block(std::size_t count, double density, Visit visit) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const Engine& engine : engines()) {
    if (!engine.usable()) continue;
    for (const ElementType type : k_element_types) {
      for (const BlockChoice choice : k_known_choices) {
        const Bytes base = random_bytes(random, count * type.width_bytes);
        const Bytes next = changed(base, type, density, random);
        Bytes coded;
        BlockEncoder(engine, choice).encode(base, next, type, coded);
        BlockVictim victim(engine, base, type);
        visit(victim, coded, random);
      }
    }
  }
}

}  // namespace

TEST_CASE("a block cut at any length is refused") {
  for (const double density : {0.05, 0.6}) {
    each_block(150, density, [](BlockVictim& victim, const Bytes& coded, auto&) {
      for (std::size_t length = 1; length < coded.size(); ++length) {
        CAPTURE(length);
        if (victim.suffer(std::span(coded).first(length)) == BlockVictim::Outcome::taken) FAIL("taken");
      }
    });
  }
}

TEST_CASE("a small block with any bit flipped is refused or harms nothing" * testing::needs_frames()) {
  for (const double density : {0.05, 0.6}) {
    each_block(150, density, [](BlockVictim& victim, Bytes coded, auto&) {
      for (std::size_t bit = 0; bit < 8 * coded.size(); ++bit) {
        const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
        coded[bit / 8] ^= mask;
        victim.suffer(coded);
        coded[bit / 8] ^= mask;
      }
    });
  }
}

TEST_CASE("a full block cut or changed here and there is refused or harms nothing" * testing::needs_frames()) {
  for (const double density : {0.02, 0.3}) {
    each_block(k_block_elements, density, [](BlockVictim& victim, Bytes coded, auto& random) {
      for (int round = 0; round < 25; ++round) {
        // Mostly near the front, where the headers are.
        const std::size_t at = random() % (round % 2 == 0 ? std::min<std::size_t>(40, coded.size()) : coded.size());
        const auto mask = static_cast<std::uint8_t>(1 + random() % 255);
        coded[at] ^= mask;
        victim.suffer(coded);
        coded[at] ^= mask;
        if (at != 0 && victim.suffer(std::span(coded).first(at)) == BlockVictim::Outcome::taken) FAIL("taken");
      }
    });
  }
}

TEST_CASE("bytes that were never a block are refused or harm nothing" * testing::needs_frames()) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    BlockVictim victim(best_engine(), random_bytes(random, 300UL * type.width_bytes), type);
    for (int round = 0; round < 3000; ++round) {
      Bytes coded = random_bytes(random, 1 + random() % 400);
      coded[0] &= static_cast<std::uint8_t>(round % 3 == 0 ? 0x17 : 0x13);
      if (round % 2 == 0) coded[0] |= 0x10;
      if (round % 5 == 0) coded[0] = static_cast<std::uint8_t>(BlockMode::afresh);
      victim.suffer(coded);
    }
  }
}

}  // namespace wdelta
