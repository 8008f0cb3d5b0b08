// SPDX-License-Identifier: Apache-2.0
// What the changes of one class are like, counted, and the coding that fits them.
#pragma once

#include "engine/bucket.hpp"
#include "engine/class_coding.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace wdelta {

/// The symbols of one class in a group.
struct ClassSymbolCounts {
  std::array<std::uint32_t, k_gap_buckets> gaps{};
  std::array<std::uint32_t, k_step_symbols> steps{};  ///< with signs as they are before a mask turns them round
  std::uint64_t gap_sum = 0;
  std::uint32_t changes = 0;
  std::uint32_t negatives = 0;  ///< behind the mask, where there is one
};

/// masked: the group has a sign mask, and `negatives` is what it left.
enum class Signs { plain, masked };

/// How many of each magnitude bucket, whatever the sign.
std::array<std::uint32_t, k_magnitude_buckets> magnitudes_of(const ClassSymbolCounts& counts);
/// How many buckets up to the last that is used.
template <std::size_t size>
std::uint32_t used_buckets(const std::array<std::uint32_t, size>& counts) {
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::uint32_t count) { return count != 0; });
  return static_cast<std::uint32_t>(counts.rend() - last);
}

// Of a class that has some changes:
/// The code of the probability that suits its gaps.
std::uint8_t fitted_gap_probability(const ClassSymbolCounts& counts);
/// What so many negative signs make, in 1/256: from 1 to 255.
std::uint8_t sign_probability(std::uint64_t negatives, std::uint64_t changes);

/// The cheapest coding for these.
ClassCoding fitted(const ClassSymbolCounts& counts, Signs signs);

}  // namespace wdelta
