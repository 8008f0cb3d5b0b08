// SPDX-License-Identifier: Apache-2.0
// Buckets (wdelta-delta.5, "Classed blocks"): a number below 4 has a bucket of its own, larger ones share two per power
// of two and say the rest in raw bits.
#pragma once

#include <cstdint>

namespace wdelta {

/// How many raw bits follow the bucket.
constexpr std::uint32_t bucket_raw_bits(std::uint32_t bucket) { return bucket < 4 ? 0 : bucket / 2 - 1; }

/// The smallest number in the bucket.
constexpr std::uint64_t bucket_begin(std::uint32_t bucket) {
  return bucket < 4 ? bucket : std::uint64_t{2 + (bucket & 1)} << bucket_raw_bits(bucket);
}

inline constexpr std::uint32_t k_gap_buckets = 42;        ///< numbers up to 2^21 - 1
inline constexpr std::uint32_t k_magnitude_buckets = 62;  ///< numbers up to 2^31 - 1
inline constexpr std::uint32_t k_step_symbols = 2 * k_magnitude_buckets;
/// Of a gap and a magnitude.
inline constexpr std::uint32_t k_most_raw_bits =
    bucket_raw_bits(k_gap_buckets - 1) + bucket_raw_bits(k_magnitude_buckets - 1);

}  // namespace wdelta
