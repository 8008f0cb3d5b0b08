// SPDX-License-Identifier: Apache-2.0
#include "engine/group_reference.hpp"

#include "base/error.hpp"
#include "codings.hpp"
#include "engine/group_changes.hpp"
#include "engine/group_tables.hpp"
#include "engine/known_groups.hpp"
#include "groups.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <cmath>
#include <doctest/doctest.h>
#include <numeric>
#include <vector>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

GroupReference random_reference(std::mt19937_64& random, const ClassLimits& limits) {
  GroupReference reference;
  reference.classes.resize(1 + random() % k_most_classes);
  do {
    for (ClassCoding& coding : reference.classes) coding = random_coding(random, limits);
  } while (std::ranges::none_of(reference.classes, &ClassCoding::is_used));
  for (std::size_t k = 0; k < reference.classes.size(); ++k) reference.changes[k] = random() % (1U << random() % 30);
  for (std::size_t k = 1; k < reference.classes.size(); ++k)
    reference.bounds.push_back(static_cast<std::uint8_t>(10 * k));
  return reference;
}

ReferenceTerms random_terms(std::mt19937_64& random, bool is_masked) {
  ReferenceTerms terms;
  terms.rarer = static_cast<std::int32_t>(often_extreme(random, 510)) - 255;
  terms.more_gap_buckets = static_cast<std::int32_t>(often_extreme(random, 128)) - 64;
  terms.more_magnitude_buckets = often_extreme(random, 62);
  if (is_masked) terms.sign = static_cast<std::uint8_t>(1 + often_extreme(random, 254));
  return terms;
}

ClassLimits random_limits(std::mt19937_64& random) {
  return {.gap_buckets = most_gap_buckets(1U << random() % 6),
          .magnitude_buckets = std::array{14U, 30U, 62U}[random() % 3],
          .is_masked = random() % 2 == 0};
}

/// Such weights after a step that moves all about as far: the smaller one is, the more often it changes.
Bytes trained(const Bytes& base, double density, std::mt19937_64& random) {
  Bytes next = base;
  for (std::size_t i = 0; i < base.size() / 2; ++i) {
    const std::uint64_t element = get(base.data(), i, 2);
    const auto exponent = static_cast<int>(element >> 7 & 0xff);
    if (std::uniform_real_distribution<>()(random) < std::ldexp(density, 122 - exponent))
      put(next.data(), i, 2, element_by_the_page(element, 1 + random() % 2, k_bf16));
  }
  return next;
}

}  // namespace

TEST_CASE("terms that are told are heard as they were, and nothing is left of their bits") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 3000; ++round) {
    const bool is_masked = round % 2 == 0;
    const ReferenceTerms told = random_terms(random, is_masked);
    Bytes bytes;
    BitWriter writer(bytes);
    told.write(writer, is_masked);
    writer.finish();
    BitReader reader(bytes);
    const ReferenceTerms heard = ReferenceTerms::read(reader, is_masked);
    if (heard.rarer != told.rarer || heard.more_gap_buckets != told.more_gap_buckets ||
        heard.more_magnitude_buckets != told.more_magnitude_buckets || heard.sign != told.sign)
      FAIL("other terms");
    if (!reader.is_at_end()) FAIL("bits are left over");
  }
}

TEST_CASE(
    "whatever the terms, classes after a reference are used and within their limits, and all symbols have codes") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 3000; ++round) {
    const ClassLimits limits = random_limits(random);
    ClassLimits of_reference = limits;
    of_reference.gap_buckets = random_limits(random).gap_buckets;  // its strips may be longer or shorter
    const GroupReference reference = random_reference(random, of_reference);
    const std::vector<ClassCoding> classes = classes_after(reference, random_terms(random, limits.is_masked), limits);
    if (classes.size() != reference.classes.size()) FAIL("another number of classes");
    for (const ClassCoding& coding : classes) {
      if (!coding.is_used() || !is_within(coding, limits)) FAIL("a class is outside of its limits");
      const auto is_zero = [](std::uint16_t frequency) { return frequency == 0; };
      if (std::ranges::any_of(coding.gap_frequencies(), is_zero)) FAIL("a gap without a code");
      if (std::ranges::any_of(coding.magnitude_frequencies(), is_zero)) FAIL("a distance without a code");
    }
  }
}

TEST_CASE("a class that a reference does not use is there as one next to it") {
  std::mt19937_64 random(1);
  const ClassLimits limits{.gap_buckets = 32, .magnitude_buckets = 30, .is_masked = false};
  GroupReference reference;
  reference.bounds = {1, 2, 3};
  ClassCoding one;
  one.gap_probability = 0x20;
  one.gap_buckets = 9;
  one.magnitude_probability = 0x10;
  one.magnitude_buckets = 2;
  ClassCoding other = one;
  other.gap_probability = 0x40;
  reference.classes = {{}, one, {}, other};
  const std::vector<ClassCoding> classes = classes_after(reference, {.rarer = 3}, limits);
  REQUIRE(classes.size() == 4);
  CHECK(int{*classes[0].gap_probability} == int{*classes[1].gap_probability});
  CHECK(int{*classes[2].gap_probability} == int{*classes[1].gap_probability});
  CHECK(int{*classes[1].gap_probability} == 0x3d);  // with the low four bits inverted, 0x2f and three more
  CHECK(int{*classes[3].gap_probability} == 0x5d);
}

TEST_CASE("groups of a run refer to those before that are alike, are smaller so, and come back") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders alone(BlockChoice::automatic);
  GroupCoders coders(BlockChoice::automatic);
  coders.begin_run();
  std::size_t alone_bytes = 0;
  std::size_t bytes = 0;
  std::size_t referring = 0;
  constexpr int k_groups = 16;
  for (int round = 0; round < k_groups; ++round) {
    const Bytes base = weights(random, 2'000 + random() % 10'000, k_bf16);
    const Bytes next = trained(base, 0.002, random);
    check(alone, base, next, k_bf16);
    check(coders, base, next, k_bf16);
    CHECK(alone.coded.reference == 0);
    alone_bytes += alone.size_bytes();
    bytes += coders.size_bytes();
    referring += coders.coded.reference != 0 ? 1 : 0;
  }
  CHECK(referring >= k_groups / 2);
  CHECK(bytes < alone_bytes);
}

TEST_CASE("a group refers to the newest of its own type, counted among those that refer to none") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::classed);
  const auto group = [&](ElementType type) {
    const Bytes base = weights(random, 20'000, type);
    Bytes next = base;
    for (std::size_t i = 0; i < 20'000; i += 1 + random() % 50) {
      put(next.data(), i, type.width_bytes,
          element_by_the_page(get(base.data(), i, type.width_bytes), 1 + random() % 2, type));
    }
    check(coders, base, next, type);
    return coders.coded.reference;
  };
  const ElementType f32{4, ElementKind::floating};
  for (int run = 0; run < 2; ++run) {
    CAPTURE(run);
    coders.begin_run();
    CHECK(group(k_bf16) == 0);
    CHECK(group(f32) == 0);
    CHECK(group(k_bf16) == 2);
    CHECK(group(f32) == 1);
    CHECK(group(k_bf16) == 2);
  }
}

TEST_CASE("of the groups that are known one is referred to that is alike, until newer ones take its place") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  GroupCoders coders(BlockChoice::classed);
  coders.begin_run();
  // Of each kind other elements change most: those of the two largest exponents, or all others.
  const auto group = [&](std::size_t kind) {
    constexpr double k_rates[][3] = {
        {0.4, 0.03, 0.002}, {0.4, 0.002, 0.03}, {0.03, 0.4, 0.002}, {0.002, 0.4, 0.03}, {0.03, 0.002, 0.4}};
    const Bytes base = weights(random, 20'000, k_bf16);
    Bytes next = base;
    for (std::size_t i = 0; i < 20'000; ++i) {
      const std::uint64_t element = get(base.data(), i, 2);
      const std::uint64_t exponent = element >> 7 & 0xff;
      const double rate = k_rates[kind][std::min<std::uint64_t>(122 - exponent, 2)];
      if (std::uniform_real_distribution<>()(random) < rate)
        put(next.data(), i, 2, element_by_the_page(element, 1 + random() % 2, k_bf16));
    }
    check(coders, base, next, k_bf16);
    return coders.coded.reference;
  };
  CHECK(group(0) == 0);
  CHECK(group(2) == 0);
  CHECK(group(0) == 2);
  CHECK(group(2) == 1);
  for (const std::size_t kind : {1U, 3U, 4U}) CHECK(group(kind) == 0);
  CHECK(group(2) == 4);
  CHECK(group(0) == 0);
}

TEST_CASE("a few hundred changes are enough to take the classes of a group that is alike, not of one that is not") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  const Engine& engine = best_engine();
  GroupChanges changes;
  // Begins a group with a block of so many elements, of which those with the two largest exponents change most. With
  // `larger` exponents than others.
  const auto begin_group = [&](std::size_t count, std::uint64_t larger) {
    constexpr double k_rates[] = {0.06, 0.01, 0.001};
    Bytes base = weights(random, count, k_bf16);
    Bytes next = base;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t element = get(base.data(), i, 2);
      const double rate = k_rates[std::min<std::uint64_t>(122 - (element >> 7 & 0xff), 2)];
      const bool is_changed = std::uniform_real_distribution<>()(random) < rate;
      put(base.data(), i, 2, element + (larger << 7));
      put(next.data(), i, 2, get(base.data(), i, 2) ^ (is_changed ? 1U : 0U));
    }
    std::vector<std::uint16_t> positions(k_block_elements + 64);
    std::vector<std::uint16_t> steps(k_block_elements + 64);
    const std::uint32_t found = engine.block(k_bf16).find_changes(
        base.data(), next.data(), static_cast<std::uint32_t>(count), positions.data(), steps.data());
    const FoundChanges block{base, std::span(positions).first(found), steps.data()};
    changes.begin(k_bf16, {}, ExpectedElements::exactly(count));
    changes.begin_block(static_cast<std::uint32_t>(count));
    changes.count(found);
    changes.look_at(engine, block);
    changes.add(engine, 0, block);
    return found;
  };
  changes.begin_run();
  CHECK(begin_group(k_block_elements, 0) >= 768);
  REQUIRE(changes.has_classes());
  const ClassBounds bounds = changes.bounds();
  changes.enter(changes.fit_parameters(engine, changes.choose_strips(false)), 100);
  const auto begin_few = [&](std::uint64_t larger) {
    const std::uint32_t found = begin_group(20'000, larger);
    CHECK(found >= 256);
    CHECK(found < 768);
  };
  int like_known = 0;  // some have other changes than most, by chance
  constexpr int k_groups = 12;
  for (int i = 0; i < k_groups; ++i) {
    begin_few(0);
    like_known += changes.has_classes() && changes.bounds() == bounds ? 1 : 0;
    begin_few(2);
    CHECK(!changes.has_classes());
  }
  CHECK(like_known >= k_groups / 2);
  // Nothing is known of another run.
  changes.begin_run();
  begin_few(0);
  CHECK(!changes.has_classes());
}

TEST_CASE("weights that a reference gives are taken as they are, none without a code") {
  const ClassLimits limits{.gap_buckets = 32, .magnitude_buckets = 30, .is_masked = false};
  ClassCoding coding;
  coding.gap_buckets = 3;
  coding.gap_weights = {3, 0, 5};
  coding.magnitude_buckets = 1;
  coding.magnitude_weights = {63};
  const GroupReference reference{{}, {coding}, {}};
  const auto after = [&](const ReferenceTerms& terms) { return classes_after(reference, terms, limits).front(); };
  CHECK((after({.rarer = 100, .more_gap_buckets = -5}).gap_weights == WeightCodes{3, 1, 5}));
  CHECK((after({.more_gap_buckets = 2}).gap_weights == WeightCodes{3, 1, 5, 1, 1}));
  CHECK(after({.more_gap_buckets = 64}).gap_buckets == 32);
  CHECK((classes_after(reference, {}, {.gap_buckets = 2, .magnitude_buckets = 30, .is_masked = false})
             .front()
             .gap_weights == WeightCodes{3, 1}));
  CHECK((after({.more_magnitude_buckets = 2}).magnitude_weights == WeightCodes{63, 1, 1}));
}

TEST_CASE("what would be long to read is not referred to, but for masks, of which nothing is read") {
  std::mt19937_64 random(seed());
  const auto parameters_of = [&](std::size_t strips) {
    GroupParameters parameters;
    ClassCoding coding;
    coding.gap_probability = 0x40;
    coding.gap_buckets = 4;
    coding.magnitude_buckets = 1;
    coding.magnitude_weights = {63};
    parameters.classes = {coding};
    parameters.strips.resize(strips);
    for (ClassCounts& counts : parameters.strips) counts[0] = 1 + often_extreme(random, 60'000);
    return parameters;
  };
  const auto bytes_of = [](const GroupParameters& parameters) {
    Bytes bytes;
    parameters.write(bytes, nullptr);
    return bytes;
  };
  KnownGroups known;
  known.begin_run();
  const auto add = [&](const GroupParameters& parameters) {
    known.add(k_bf16, parameters, bytes_of(parameters).size());
  };
  add(parameters_of(10));
  REQUIRE(known.groups().size() == 1);
  CHECK(known.distance_to(known.groups()[0]) == 1);

  const GroupParameters large = parameters_of(50'000);
  const Bytes bytes = bytes_of(large);
  REQUIRE(bytes.size() > k_most_reference_bytes);
  add(large);
  REQUIRE(known.groups().size() == 1);
  CHECK(known.distance_to(known.groups()[0]) == 2);  // it counts
  const GroupShape shape{
      .type = k_bf16, .block_count = 50'000, .element_count = 50'000 * k_block_elements, .place = {}};
  CHECK(read_group_reference(bytes, shape).changes[0] > 0);
  CHECK_THROWS_WITH_AS(read_group_reference(std::span(bytes).first(k_most_reference_bytes), shape),
                       doctest::Contains("cut off behind 65536 bytes"), Error);

  GroupParameters masked = parameters_of(10);
  masked.mask.rows.resize(2 * k_most_reference_bytes);
  add(masked);
  CHECK(known.groups().size() == 2);
  const GroupShape small{.type = k_bf16, .block_count = 10, .element_count = 10 * k_block_elements, .place = {}};
  const Bytes masked_bytes = bytes_of(masked);
  CHECK(read_group_reference(std::span(masked_bytes).first(k_most_reference_bytes), small).changes[0] > 0);
}

}  // namespace wdelta
