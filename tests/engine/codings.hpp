// SPDX-License-Identifier: Apache-2.0
// Codings of classes for the tests of this room.
#pragma once

#include "engine/class_coding.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

namespace wdelta::testing {

/// From 0 to `most`, often one of these.
inline std::uint32_t often_extreme(std::mt19937_64& random, std::uint32_t most) {
  const std::uint64_t kind = random() % 4;
  return kind == 0 ? 0 : kind == 1 ? most : static_cast<std::uint32_t>(random() % (most + 1));
}

inline WeightCodes random_weights(std::mt19937_64& random, std::uint32_t count) {
  WeightCodes weights(count);
  for (std::uint8_t& weight : weights) weight = static_cast<std::uint8_t>(often_extreme(random, 63));
  weights[random() % count] |= 1;
  return weights;
}

inline ClassCoding random_coding(std::mt19937_64& random, const ClassLimits& limits) {
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

inline bool is_within(const ClassCoding& coding, const ClassLimits& limits) {
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

}  // namespace wdelta::testing
