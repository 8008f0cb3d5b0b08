// SPDX-License-Identifier: Apache-2.0
// Logarithms for choosing between codings: the same on every machine.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace wdelta {

/// log2(1 + i/256) in 1/65536, digit by digit: squaring a number doubles its logarithm.
inline constexpr std::array<std::uint32_t, 257> k_log2_points = [] {
  std::array<std::uint32_t, 257> points{};
  for (std::uint64_t i = 0; i < 256; ++i) {
    std::uint64_t mantissa = (256 + i) << 23;  // in [2^31, 2^32)
    for (int bit = 15; bit >= 0; --bit) {
      mantissa = (mantissa * mantissa) >> 31;
      if (mantissa >> 32 == 0) continue;
      points[i] |= 1U << bit;
      mantissa >>= 1;
    }
  }
  points[256] = 1U << 16;
  return points;
}();

/// log2(value) in 1/65536; 0 for 0. Straight lines between 256 points from each power of two to the next.
inline std::uint32_t log2_fixed(std::uint64_t value) {
  if (value <= 1) return 0;
  const auto whole = static_cast<std::uint32_t>(std::bit_width(value)) - 1;
  const std::uint64_t mantissa = value << (63 - whole) << 1;
  const std::size_t point = mantissa >> 56;
  const auto beyond = static_cast<std::uint32_t>((mantissa >> 40) & 0xffff);
  const std::uint32_t from = k_log2_points[point];
  return (whole << 16) + from +
         static_cast<std::uint32_t>((std::uint64_t{k_log2_points[point + 1] - from} * beyond) >> 16);
}

/// n log2 n, in 1/65536 of a bit.
inline std::uint64_t n_log2_n(std::uint64_t n) { return n * log2_fixed(n); }

}  // namespace wdelta
