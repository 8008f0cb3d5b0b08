// SPDX-License-Identifier: Apache-2.0
// What the changes of one class are like, counted, and the coding that fits them.
#pragma once

#include "engine/bucket.hpp"
#include "engine/class_coding.hpp"

#include <array>
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

/// The cheapest coding for these.
ClassCoding fitted(const ClassSymbolCounts& counts, Signs signs);

}  // namespace wdelta
