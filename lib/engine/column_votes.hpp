// SPDX-License-Identifier: Apache-2.0
// SignKernels::fit_columns(), one column after the other.
#pragma once

#include "engine/kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

/// For votes of any width.
template <class Vote>
std::uint64_t fit_columns(const Vote* votes, std::uint32_t columns, const FittedColumns& fitted) {
  constexpr int k_half_bits = 4 * sizeof(Vote);
  constexpr Vote k_half = (Vote{1} << k_half_bits) - 1;
  std::uint64_t agreeing = 0;
  for (std::uint32_t first = 0; first < columns; first += 8) {
    std::uint32_t as_they_are = 0;
    std::uint32_t as_turned = 0;
    for (std::uint32_t i = 0; i < 8 && first + i < columns; ++i) {
      const std::size_t at = std::size_t{2} * (first + i);
      const Vote positive = votes[at];
      const Vote negative = votes[at + 1];
      const Vote all_positive = (positive & k_half) + (positive >> k_half_bits);
      const Vote all_negative = (negative & k_half) + (negative >> k_half_bits);
      const bool is_negative = all_negative > all_positive;
      agreeing += is_negative ? all_negative : all_positive;
      const bool is_turned_negative =
          (negative & k_half) + (positive >> k_half_bits) > (positive & k_half) + (negative >> k_half_bits);
      as_they_are |= std::uint32_t{is_negative} << i;
      as_turned |= std::uint32_t{is_turned_negative} << i;
    }
    fitted.as_they_are[first / 8] = static_cast<std::uint8_t>(as_they_are);
    fitted.as_turned[first / 8] = static_cast<std::uint8_t>(as_turned);
  }
  return agreeing;
}

}  // namespace
}  // namespace wdelta
