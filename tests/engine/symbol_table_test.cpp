// SPDX-License-Identifier: Apache-2.0
#include "engine/symbol_table.hpp"

#include "engine/fixed_log2.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <numeric>

namespace wdelta {
namespace {

using namespace testing;

/// Returns what is wrong, or null.
const char* wrong_with(const Frequencies& frequencies, const std::vector<std::uint64_t>& weights) {
  if (frequencies.size() != weights.size()) return "as many as weights";
  if (std::accumulate(frequencies.begin(), frequencies.end(), 0U) != k_scale) return "sum";
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if ((frequencies[i] == 0) != (weights[i] == 0)) return "0 where the weight is, and only there";
  }
  return nullptr;
}

}  // namespace

TEST_CASE("frequencies add up to the scale and leave out no weight, random or extreme") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint64_t k_most = (std::uint64_t{1} << 52) - 2000;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::uint64_t> weights(1 + random() % (round % 100 == 0 ? k_scale : 124));
    for (std::uint64_t& weight : weights) {
      if (random() % 3 != 0) weight = 1 + (random() >> (random() % 45 + 19)) / weights.size();
    }
    if (round % 7 == 0) std::ranges::fill(weights, 1);
    if (round % 5 == 0) weights[random() % weights.size()] = k_most / 2;
    weights[random() % weights.size()] |= 1;
    const char* const wrong = wrong_with(frequencies_of(weights), weights);
    if (wrong != nullptr) FAIL(wrong);
  }
  CHECK(frequencies_of(std::vector<std::uint64_t>{k_most}) == Frequencies{1024});
  CHECK(frequencies_of(std::vector<std::uint64_t>{0, 1, 0}) == Frequencies{0, 1024, 0});
  CHECK(frequencies_of(std::vector<std::uint64_t>(1024, 7)) == Frequencies(1024, 1));
}

TEST_CASE("what is missing goes to the first of the largest, what is too much comes from the largest in halves") {
  CHECK(frequencies_of(std::vector<std::uint64_t>{1, 1, 1}) == Frequencies{342, 341, 341});
  CHECK(frequencies_of(std::vector<std::uint64_t>{0, 5, 2, 5}) == Frequencies{0, 428, 170, 426});
  // 1,000 symbols of 1 each and one of 1,024, rounded up from almost none: 1,000 must be taken from the last.
  std::vector<std::uint64_t> weights(1001, 1);
  weights[1000] = std::uint64_t{1} << 40;
  Frequencies wanted(1001, 1);
  wanted[1000] = 24;
  CHECK(frequencies_of(weights) == wanted);
  // 599, 424 and 500 times 1 are 499 too many: half of the first goes, then what is left comes from the second.
  std::vector<std::uint64_t> two(502, 1);
  two[500] = 600'000'000'000;
  two[501] = 424'100'000'000;
  const Frequencies made = frequencies_of(two);
  CHECK(made[500] == 599 - 299);
  CHECK(made[501] == 424 - 200);
}

TEST_CASE("gaps from any probability have frequencies for any number of buckets, in the order that it says") {
  for (int code = 0; code < 256; ++code) {
    const double p = (16 + (code & 15)) / 32.0 / std::exp2(code >> 4);
    for (std::uint32_t buckets = 1; buckets <= k_gap_buckets; ++buckets) {
      const Frequencies frequencies = frequencies_of(geometric_weights(static_cast<std::uint8_t>(code), buckets));
      const char* const wrong = wrong_with(frequencies, std::vector<std::uint64_t>(buckets, 1));
      CAPTURE(code);
      CAPTURE(buckets);
      if (wrong != nullptr) FAIL(wrong);
      // Those of single numbers fall off as probabilities do.
      for (std::uint32_t i = 0; i + 1 < std::min(buckets, 4U) && buckets > 4; ++i) {
        if (frequencies[i] + 2 < frequencies[i + 1]) FAIL("rises");
      }
      if (buckets > 8 && frequencies[0] > 40) {
        CHECK(std::abs(frequencies[0] - p * k_scale) <= k_gap_buckets);
      }
    }
    // A code says its own probability.
    CHECK(int{probability_code(p)} == code);
  }
}

TEST_CASE("weights have codes, nearest where the largest count has the largest") {
  CHECK(weight_of(0) == 0);
  CHECK(weight_of(1) == 4);
  CHECK(weight_of(63) == 6U << 15);
  for (std::uint32_t code = 1; code < 63; ++code) CHECK(weight_of(code) < weight_of(code + 1));
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (int round = 0; round < 20'000; ++round) {
    const auto largest = static_cast<std::uint32_t>(1 + (random() & 0xffffffff) % (1U << (random() % 23)));
    const auto count = static_cast<std::uint32_t>(random() % (largest + 1UL));
    const std::uint32_t code = weight_code(count, largest);
    if ((code == 0) != (count == 0)) FAIL("0 where the count is");
    if (count == largest && code != 63) FAIL("the largest");
    const double wanted = static_cast<double>(count) / largest * weight_of(63);
    // Small ones are rounded down to whole numbers first.
    if (count != 0 && wanted > 64 && std::abs(weight_of(code) / wanted - 1) > 0.14) FAIL("far off");
  }
}

namespace {

/// (2 * state * factor) >> 52, of a factor with 52 bits: in two parts, as the product has 84.
std::uint64_t quotient_of(std::uint64_t state, EncodeEntry entry) {
  const std::uint64_t high = entry >> 32 & 0xfffff;
  const std::uint64_t low = entry & 0xffffffff;
  return ((2 * state * low >> 32) + 2 * state * high) >> 20;
}

}  // namespace

TEST_CASE("entries of the encoder divide every state exactly, for every frequency") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  for (std::uint32_t frequency = 1; frequency <= k_scale; ++frequency) {
    Frequencies frequencies{static_cast<std::uint16_t>(frequency)};
    if (frequency < k_scale) frequencies.push_back(static_cast<std::uint16_t>(k_scale - frequency));
    std::array<EncodeEntry, 2> entries{};
    fill_encode_entries(frequencies, entries.data());
    const EncodeEntry entry = entries[0];
    CHECK((entry >> 53) == k_scale - frequency);
    CHECK((entry & 0x3ff) == 0);
    if (frequency < k_scale) CHECK((entries[1] & 0x3ff) == frequency);
    std::uint64_t wrong = 0;
    const auto check = [&](std::uint64_t state) {
      if (state < std::uint64_t{1} << 31) wrong += quotient_of(state, entry) != state / frequency;
    };
    // Where the quotient changes, at both ends and here and there; and whatever a state may be in between.
    const std::uint64_t last = (std::uint64_t{1} << 31) / frequency;
    for (const std::uint64_t quotient :
         {std::uint64_t{1}, std::uint64_t{31}, std::uint64_t{32}, last / 2, last - 1, last}) {
      for (const std::uint64_t beside : {0, 1, 2}) check(quotient * frequency + beside - 1);
    }
    for (int round = 0; round < 200; ++round) {
      check(random() >> 33);
      check((random() >> 33) / frequency * frequency);
      check((random() >> 33) / frequency * frequency + frequency - 1);
    }
    check((std::uint64_t{1} << 31) - 1);
    if (wrong != 0) {
      CAPTURE(frequency);
      FAIL("does not divide");
    }
  }
}

TEST_CASE("decode tables lead from each remainder to its symbol") {
  const Frequencies frequencies{0, 1, 1000, 0, 23};
  DecodeTable table;
  fill_decode_table(frequencies, table);
  std::uint32_t at = 0;
  for (std::uint32_t symbol = 0; symbol < frequencies.size(); ++symbol) {
    for (std::uint32_t i = 0; i < frequencies[symbol]; ++i, ++at) {
      if (table.slots[at] != (frequencies[symbol] | i << 11 | symbol << 24)) FAIL(at);
    }
  }
  CHECK(at == k_scale);
}

TEST_CASE("logarithms are near enough to choose by, and rise") {
  CHECK(log2_fixed(0) == 0);
  CHECK(log2_fixed(1) == 0);
  for (int bit = 1; bit < 64; ++bit)
    CHECK(log2_fixed(std::uint64_t{1} << bit) == static_cast<std::uint32_t>(bit) << 16);
  for (std::uint64_t value = 2; value < 100'000; ++value) {
    if (std::abs(log2_fixed(value) / 65536.0 - std::log2(static_cast<double>(value))) > 0.0001) FAIL(value);
    if (log2_fixed(value) < log2_fixed(value - 1)) FAIL("falls");
  }
}

}  // namespace wdelta
