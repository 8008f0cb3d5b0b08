// SPDX-License-Identifier: Apache-2.0
#include "engine/class_coding.hpp"

#include "base/error.hpp"
#include "codings.hpp"
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

bool are_same(const ClassCoding& one, const ClassCoding& other) {
  return one.gap_probability == other.gap_probability && one.gap_buckets == other.gap_buckets &&
         one.gap_weights == other.gap_weights && one.magnitude_probability == other.magnitude_probability &&
         one.magnitude_buckets == other.magnitude_buckets && one.magnitude_weights == other.magnitude_weights &&
         one.sign == other.sign;
}

}  // namespace

TEST_CASE("classes that are told are heard as they were, whatever came before, and nothing is left of their bits") {
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
    ClassSeries told(limits);
    for (const ClassCoding& coding : codings) told.write(coding, writer);
    writer.finish();
    BitReader reader(bytes);
    ClassSeries heard(limits);
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
    ClassSeries series(k_limits);
    try {
      for (std::uint32_t k = 0; k < k_most_classes; ++k) {
        if (!is_within(series.read(reader), k_limits)) FAIL("outside of the limits");
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
    if (bytes.size() != (told_bits(weights) + 7) / 8) FAIL("weights");
  }
  CHECK(told_bits({63}) == 3);
  CHECK(told_bits({63, 62, 60}) == 3 + 3 + 3);
  CHECK(told_bits({61, 0}) == 3 + 11);
  CHECK(difference_bits(7, 7, 0) == 1);
  CHECK(difference_bits(6, 7, 0) == 3);
  CHECK(difference_bits(65536, 0, 6) == 2 * 18 - 6 - 1);
}

}  // namespace wdelta
