// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "groups.hpp"
#include "guarded.hpp"

#include <doctest/doctest.h>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// Decodes broken groups of one batch with every engine, from bytes and into elements that lie between forbidden pages.
class GroupVictim {
 public:
  GroupVictim(Bytes base, ElementType type, const MatrixPlace& place, std::uint32_t blocks_in_strip = 1)
      : base_(std::move(base)),
        type_(type),
        shape_(with_strips(shape_of(base_.size(), type, place), blocks_in_strip)),
        elements_(base_.size()),
        coded_(12 * k_block_elements),
        parameters_(4 * k_block_elements),
        reference_(4 * k_block_elements) {
    for (const Engine& engine : engines()) {
      if (engine.usable()) chains_.emplace_back(&engine, engine);
    }
  }

  enum class Outcome { taken, refused };

  /// What every engine says; the test fails where two differ.
  Outcome suffer(std::span<const std::uint8_t> parameters, std::span<const std::uint8_t> coded,
                 std::span<const std::uint8_t> of_reference = {}) {
    std::optional<Outcome> agreed;
    Bytes result;
    for (auto& [engine, chain] : chains_) {
      const auto elements = elements_.copy(base_);
      Outcome outcome = Outcome::taken;
      try {
        std::optional<GroupReference> reference;
        if (!of_reference.empty()) reference = read_group_reference(reference_.copy(of_reference), shape_);
        const DecodedGroup group(*engine, parameters_.copy(parameters), shape_, shape_.block_count,
                                 {coded_.copy(coded)}, reference ? &*reference : nullptr);
        apply_group(chain, group, type_, elements);
      } catch (const Error& error) {
        if (error.fault() != Fault::corrupt || !error.object().empty()) FAIL(error.what());
        outcome = Outcome::refused;
      }
      if (agreed && *agreed != outcome) FAIL("one engine refuses what another takes");
      if (agreed && outcome == Outcome::taken && !std::ranges::equal(result, elements)) FAIL("two engines differ");
      agreed = outcome;
      result.assign(elements.begin(), elements.end());
    }
    return *agreed;
  }

 private:
  Bytes base_;
  ElementType type_;
  GroupShape shape_;
  Guarded elements_;
  Guarded coded_;
  Guarded parameters_;
  Guarded reference_;
  std::vector<std::pair<const Engine*, BlockChain>> chains_;
};

/// Calls visit(victim, group, random) for a classed block, or batch, of so many elements of every type, as rows and as
/// a matrix.
template <class Visit>
void each_group(std::size_t count, double density, Visit visit) {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupEncoder encoder(best_engine(), BlockChoice::classed);
  for (const ElementType type : k_classed_types) {
    for (const std::uint64_t row : {0, 8, 4}) {
      const MatrixPlace place{row, 0};
      const Bytes base = random_bytes(random, count * type.width_bytes);
      Bytes next = base;
      if (row == 0) next = changed(base, type, density, random);
      // One way only: where there are rows there is a mask then. Of short ones most are skipped.
      for (std::size_t i = 0; i < count && row != 0; ++i) {
        if (row == 4 && i / row % 16 != 3) continue;
        if (random() % 100 >= std::uint64_t(100 * density)) continue;
        put(next.data(), i, type.width_bytes,
            element_by_the_page(get(base.data(), i, type.width_bytes), 1 + i % 2, type));
      }
      CodedGroup group;
      encode_group(encoder, base, next, type, place, group);
      if (group.parameters.empty()) continue;
      REQUIRE(group.batch_bytes.size() == 1);
      GroupVictim victim(base, type, place, group.blocks_in_strip);
      CAPTURE(int{type.width_bytes});
      CAPTURE(int(type.kind));
      CAPTURE(row);
      REQUIRE((victim.suffer(group.parameters, group.bytes) == GroupVictim::Outcome::taken));
      visit(victim, group, random);
    }
  }
}

void must_refuse(GroupVictim& victim, std::span<const std::uint8_t> parameters, std::span<const std::uint8_t> coded) {
  if (victim.suffer(parameters, coded) == GroupVictim::Outcome::taken) FAIL("taken");
}

}  // namespace

TEST_CASE("parameters or a classed block cut at any length or with a byte behind are refused") {
  for (const double density : {0.1, 0.9}) {
    each_group(300, density, [](GroupVictim& victim, CodedGroup& group, auto&) {
      for (std::size_t length = 0; length < group.parameters.size(); ++length) {
        CAPTURE(length);
        must_refuse(victim, std::span(group.parameters).first(length), group.bytes);
      }
      for (std::size_t length = 1; length < group.bytes.size(); ++length) {
        CAPTURE(length);
        must_refuse(victim, group.parameters, std::span(group.bytes).first(length));
      }
      group.bytes.push_back(0);
      must_refuse(victim, group.parameters, group.bytes);
      group.bytes.pop_back();
      group.parameters.push_back(0);
      must_refuse(victim, group.parameters, group.bytes);
    });
  }
}

TEST_CASE("a small group with any bit flipped is refused or harms nothing, the same for every engine") {
  for (const double density : {0.1, 0.5, 0.9}) {
    each_group(density < 0.5 ? 100 : 700, density, [](GroupVictim& victim, CodedGroup& group, auto&) {
      for (std::vector<std::uint8_t>* const part : {&group.parameters, &group.bytes}) {
        for (std::size_t bit = 0; bit < 8 * part->size(); ++bit) {
          const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
          (*part)[bit / 8] ^= mask;
          victim.suffer(group.parameters, group.bytes);
          (*part)[bit / 8] ^= mask;
        }
      }
    });
  }
}

TEST_CASE(
    "a small group that refers, with any bit flipped in it or in what it refers to, is refused or harms nothing") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupEncoder encoder(best_engine(), BlockChoice::classed);
  for (const ElementType type : k_classed_types) {
    for (const std::uint64_t row : {0, 8}) {
      CAPTURE(int{type.width_bytes});
      CAPTURE(row);
      const MatrixPlace place{row, 4};
      const Bytes base = weights(random, 300, type);
      CodedGroup told;
      CodedGroup group;
      // Until one refers, which depends on what it costs.
      for (std::size_t round = 0; group.reference == 0; ++round) {
        REQUIRE(round < 100);
        encoder.begin_run();
        encode_group(encoder, base, changed(base, type, 0.3, random), type, place, told);
        encode_group(encoder, base, changed(base, type, 0.3, random), type, place, group);
      }
      GroupVictim victim(base, type, place, group.blocks_in_strip);
      const auto suffer = [&] { return victim.suffer(group.parameters, group.bytes, told.parameters); };
      REQUIRE((suffer() == GroupVictim::Outcome::taken));
      for (std::vector<std::uint8_t>* const part : {&told.parameters, &group.parameters, &group.bytes}) {
        for (std::size_t bit = 0; bit < 8 * part->size(); ++bit) {
          const auto mask = static_cast<std::uint8_t>(1 << bit % 8);
          (*part)[bit / 8] ^= mask;
          suffer();
          (*part)[bit / 8] ^= mask;
        }
      }
      const Bytes whole = group.parameters;
      for (group.parameters.pop_back(); !group.parameters.empty(); group.parameters.pop_back()) {
        CAPTURE(group.parameters.size());
        CHECK((suffer() == GroupVictim::Outcome::refused));
      }
      group.parameters = whole;
      group.parameters.push_back(0);
      CHECK((suffer() == GroupVictim::Outcome::refused));
      group.parameters = whole;
      told.parameters.resize(2);
      CHECK((suffer() == GroupVictim::Outcome::refused));
    }
  }
}

TEST_CASE("a full block or a batch with bytes changed here and there is refused or harms nothing") {
  for (const auto& [count, density] : {std::pair<std::size_t, double>{k_block_elements, 0.02},
                                       {k_block_elements, 0.5},
                                       {k_block_elements, 1.0},
                                       {3 * k_block_elements + 500, 0.01}}) {
    each_group(count, density, [](GroupVictim& victim, CodedGroup& group, auto& random) {
      for (int round = 0; round < 24; ++round) {
        std::vector<std::uint8_t>& part = round % 2 == 0 ? group.parameters : group.bytes;
        // Mostly near the front, where the states are, or at the end, where the raw bits are.
        std::size_t at = random() % part.size();
        if (round % 4 == 1) at = random() % std::min<std::size_t>(part.size(), 40);
        if (round % 8 == 3) at = part.size() - 1 - random() % std::min<std::size_t>(part.size(), 40);
        const auto mask = static_cast<std::uint8_t>(1 + random() % 255);
        part[at] ^= mask;
        victim.suffer(group.parameters, group.bytes);
        part[at] ^= mask;
      }
    });
  }
}

TEST_CASE("bytes that were never a group are refused or harm nothing") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (const ElementType type : k_element_types) {
    for (const std::uint64_t row : {0, 2, 65536}) {
      GroupVictim victim(random_bytes(random, 300UL * type.width_bytes), type, {row, 65536});
      for (int round = 0; round < 1000; ++round) {
        Bytes parameters = random_bytes(random, random() % 100);
        Bytes coded = random_bytes(random, 1 + random() % 400);
        coded[0] &= 0x13;
        if (round % 2 == 0) coded[0] = 4;
        if (!parameters.empty()) parameters[0] &= static_cast<std::uint8_t>(round % 3 == 0 ? 0x3f : 0x01);
        victim.suffer(parameters, coded);
      }
    }
  }
}

TEST_CASE("a block that the group takes for another one is refused") {
  const ElementType type{1, ElementKind::integer};
  const Bytes base(300, 7);
  Bytes next = base;
  for (std::size_t i = 0; i < 40; ++i) next[i * i % 300] = static_cast<std::uint8_t>(8 + i % 3);
  CodedGroup group;
  GroupEncoder encoder(best_engine(), BlockChoice::classed);
  encode_group(encoder, base, next, type, {}, group);
  Bytes alone;
  BlockEncoder(best_engine()).encode(base, next, type, alone);
  GroupVictim victim(base, type, {});
  must_refuse(victim, group.parameters, alone);
  BlockDecoder decoder(best_engine());
  Bytes elements = base;
  CHECK_THROWS_AS(decoder.apply(group.bytes, type, elements), Error);
}

TEST_CASE("a batch with more changes than any may have is refused") {
  const ElementType type{1, ElementKind::integer};
  const Bytes base(k_block_elements, 7);
  const Bytes next(k_block_elements, 8);
  CodedGroup group;
  GroupEncoder encoder(best_engine(), BlockChoice::classed);
  encode_group(encoder, base, next, type, {}, group);
  // The same block once more, in the same batch.
  GroupParameters parameters = GroupTables(group.parameters, shape_of(base.size(), type, {})).parameters();
  parameters.strips.push_back(parameters.strips.front());
  Bytes twice;
  parameters.write(twice, nullptr);
  GroupVictim victim(Bytes(2 * k_block_elements, 7), type, {});
  must_refuse(victim, twice, group.bytes);
}

TEST_CASE("gaps that are longer than a strip are refused, whether any change has one or not") {
  const ElementType type{1, ElementKind::integer};
  const Bytes base(3 * k_block_elements, 7);
  Bytes next = base;
  for (std::size_t i = 0; i < base.size(); i += 999) next[i] = 8;
  CodedGroup group;
  GroupEncoder encoder(best_engine(), BlockChoice::classed);
  encode_group(encoder, base, next, type, {}, group);
  const std::uint32_t blocks_in_strip = group.blocks_in_strip;
  REQUIRE(blocks_in_strip > 1);
  GroupVictim victim(base, type, {}, blocks_in_strip);
  REQUIRE((victim.suffer(group.parameters, group.bytes) == GroupVictim::Outcome::taken));
  const GroupShape shape = with_strips(shape_of(base.size(), type, {}), blocks_in_strip);
  GroupParameters parameters = GroupTables(group.parameters, shape).parameters();
  ClassCoding& coding = parameters.classes.front();
  coding.gap_probability.reset();
  coding.gap_weights = WeightCodes(most_gap_buckets(blocks_in_strip) + 1);
  coding.gap_weights[coding.gap_weights.size() - 1] = 1;
  coding.gap_buckets = most_gap_buckets(blocks_in_strip) + 1;
  Bytes too_many;
  parameters.write(too_many, nullptr);
  must_refuse(victim, too_many, group.bytes);
  // The largest gap that can be told: the first change lies far behind the last element.
  coding.gap_weights = WeightCodes(most_gap_buckets(blocks_in_strip));
  coding.gap_weights[coding.gap_weights.size() - 1] = 1;
  coding.gap_buckets = most_gap_buckets(blocks_in_strip);
  Bytes too_far;
  parameters.write(too_far, nullptr);
  must_refuse(victim, too_far, group.bytes);
}

}  // namespace wdelta
