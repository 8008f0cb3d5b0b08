// SPDX-License-Identifier: Apache-2.0
#include "engine/class_coding.hpp"

#include "base/error.hpp"
#include "engine/count_model.hpp"
#include "engine/group_tables.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <vector>

namespace wdelta {
namespace {

using namespace testing;

constexpr ClassLimits k_limits{
    .gap_buckets = k_gap_buckets, .magnitude_buckets = k_magnitude_buckets, .is_masked = true};

/// From 0 to `most`, often one of these.
std::uint32_t often_extreme(std::mt19937_64& random, std::uint32_t most) {
  const std::uint64_t kind = random() % 4;
  return kind == 0 ? 0 : kind == 1 ? most : static_cast<std::uint32_t>(random() % (most + 1));
}

WeightCodes random_weights(std::mt19937_64& random, std::uint32_t count) {
  WeightCodes weights(count);
  for (std::uint8_t& weight : weights) weight = static_cast<std::uint8_t>(often_extreme(random, 63));
  weights[random() % count] |= 1;
  return weights;
}

ClassCoding random_coding(std::mt19937_64& random, const ClassLimits& limits) {
  ClassCoding coding;
  if (random() % 5 == 0) return coding;
  coding.gap_buckets = 1 + often_extreme(random, limits.gap_buckets - 1);
  coding.magnitude_buckets = 1 + often_extreme(random, limits.magnitude_buckets - 1);
  if (random() % 2 == 0) {
    coding.gap_probability = static_cast<std::uint8_t>(often_extreme(random, 255));
  } else {
    coding.gap_weights = random_weights(random, coding.gap_buckets);
  }
  if (coding.magnitude_buckets == 1) {
    coding.magnitude_weights = {63};
  } else if (random() % 2 == 0) {
    coding.magnitude_probability = static_cast<std::uint8_t>(often_extreme(random, 255));
  } else {
    coding.magnitude_weights = random_weights(random, coding.magnitude_buckets);
  }
  if (limits.is_masked) coding.sign = static_cast<std::uint8_t>(1 + often_extreme(random, 254));
  return coding;
}

bool are_same(const ClassCoding& one, const ClassCoding& other) {
  return one.gap_probability == other.gap_probability && one.gap_buckets == other.gap_buckets &&
         one.gap_weights == other.gap_weights && one.magnitude_probability == other.magnitude_probability &&
         one.magnitude_buckets == other.magnitude_buckets && one.magnitude_weights == other.magnitude_weights &&
         one.sign == other.sign;
}

bool is_within(const ClassCoding& coding, const ClassLimits& limits) {
  const auto has_some = [](const WeightCodes& weights) {
    return std::ranges::any_of(weights, [](std::uint8_t weight) { return weight != 0; }) &&
           std::ranges::all_of(weights, [](std::uint8_t weight) { return weight < 64; });
  };
  if (!coding.is_used()) return true;
  return coding.gap_buckets <= limits.gap_buckets && coding.magnitude_buckets >= 1 &&
         coding.magnitude_buckets <= limits.magnitude_buckets && coding.sign != 0 &&
         (coding.gap_probability ||
          (coding.gap_weights.size() == coding.gap_buckets && has_some(coding.gap_weights))) &&
         (coding.magnitude_probability ||
          (coding.magnitude_weights.size() == coding.magnitude_buckets && has_some(coding.magnitude_weights)));
}

}  // namespace

TEST_CASE("classes told in brief are heard as they were, whatever came before, and nothing is left of their bits") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 3000; ++round) {
    const ClassLimits limits{.gap_buckets = round % 2 == 0 ? 32U : k_gap_buckets,
                             .magnitude_buckets = std::array{14U, 30U, 62U}[random() % 3],
                             .is_masked = random() % 2 == 0};
    std::vector<ClassCoding> codings(1 + random() % k_most_classes);
    std::ranges::generate(codings, [&] { return random_coding(random, limits); });
    std::vector<std::uint8_t> bytes;
    BitWriter writer(bytes);
    BriefClasses told(limits);
    for (const ClassCoding& coding : codings) told.write(coding, writer);
    writer.finish();
    BitReader reader(bytes);
    BriefClasses heard(limits);
    for (const ClassCoding& coding : codings) {
      if (!are_same(heard.read(reader), coding)) FAIL("a class is another one");
    }
    if (!reader.is_at_end()) FAIL("bits are left over");
  }
}

TEST_CASE("whatever the bits, what is heard of a class is within its limits, or is refused") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  std::size_t heard = 0;
  std::size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    // The more bits are set, the smaller are differences.
    std::vector<std::uint8_t> bytes(random() % 40);
    for (std::uint8_t& byte : bytes)
      byte = static_cast<std::uint8_t>(random() | (random() & (round % 2 == 0 ? 255 : 0)));
    BitReader reader(bytes);
    BriefClasses brief(k_limits);
    try {
      for (std::uint32_t k = 0; k < k_most_classes; ++k) {
        if (!is_within(brief.read(reader), k_limits)) FAIL("outside of the limits");
        ++heard;
      }
    } catch (const Error& error) {
      if (error.fault() != Fault::corrupt) FAIL("another fault");
      ++refused;
    }
  }
  CHECK(heard > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("what weights and differences take is foretold to the bit") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 1000; ++round) {
    const WeightCodes weights = random_weights(random, 1 + static_cast<std::uint32_t>(random() % 62));
    std::vector<std::uint8_t> bytes;
    BitWriter writer(bytes);
    std::uint32_t before = 63;
    for (const std::uint8_t weight : weights) {
      writer.write_difference(weight, before, 2);
      before = weight;
    }
    writer.finish();
    if (bytes.size() != (brief_bits(weights) + 7) / 8) FAIL("weights");
  }
  CHECK(brief_bits({63}) == 3);
  CHECK(brief_bits({63, 62, 60}) == 3 + 3 + 3);
  CHECK(brief_bits({61, 0}) == 3 + 11);
  CHECK(difference_bits(7, 7, 0) == 1);
  CHECK(difference_bits(6, 7, 0) == 3);
  CHECK(difference_bits(65536, 0, 6) == 2 * 18 - 6 - 1);
}

TEST_CASE("numbers of changes come back, whatever the first is expected to be") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 2000; ++round) {
    const std::uint32_t expected = often_extreme(random, k_most_batch_changes);
    std::vector<std::uint32_t> counts(1 + random() % 20);
    std::ranges::generate(counts, [&] { return often_extreme(random, k_most_batch_changes); });
    std::vector<std::uint8_t> bytes;
    BitWriter writer(bytes);
    CountModel told;
    told.expect(expected);
    for (const std::uint32_t count : counts) told.write(count, writer);
    writer.finish();
    BitReader reader(bytes);
    CountModel heard;
    heard.expect(expected);
    for (const std::uint32_t count : counts) {
      if (heard.read(reader, k_most_batch_changes) != count) FAIL("another number");
    }
    if (!reader.is_at_end()) FAIL("bits are left over");
  }
}

}  // namespace wdelta
