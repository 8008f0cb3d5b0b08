// SPDX-License-Identifier: Apache-2.0
#include "engine/class_fit.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace wdelta {

namespace {

/// How many buckets up to the last that is used.
template <std::size_t size>
std::uint32_t used_buckets(const std::array<std::uint32_t, size>& counts) {
  const auto last = std::find_if(counts.rbegin(), counts.rend(), [](std::uint32_t count) { return count != 0; });
  return static_cast<std::uint32_t>(counts.rend() - last);
}

std::vector<std::uint8_t> weight_codes(std::span<const std::uint32_t> counts) {
  const std::uint32_t largest = *std::ranges::max_element(counts);
  std::vector<std::uint8_t> codes;
  for (const std::uint32_t count : counts) codes.push_back(weight_code(count, largest));
  return codes;
}

}  // namespace

ClassCoding fitted(const ClassSymbolCounts& counts, Signs signs) {
  ClassCoding coding;
  if (counts.changes == 0) return coding;
  coding.gap_buckets = used_buckets(counts.gaps);
  const std::span<const std::uint32_t> gaps = std::span(counts.gaps).first(coding.gap_buckets);
  coding.gap_weights = weight_codes(gaps);
  const std::uint64_t weights_cost = cost_of(gaps, coding.gap_frequencies()) + (std::uint64_t{6} << 16) * gaps.size();
  coding.gap_probability =
      probability_code(static_cast<double>(counts.changes) / static_cast<double>(counts.changes + counts.gap_sum));
  if (cost_of(gaps, coding.gap_frequencies()) + (std::uint64_t{8} << 16) <= weights_cost) {
    coding.gap_weights.clear();
  } else {
    coding.gap_probability.reset();
  }
  std::array<std::uint32_t, k_magnitude_buckets> magnitudes;
  for (std::size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] = counts.steps[2 * i] + counts.steps[2 * i + 1];
  coding.magnitude_weights = weight_codes(std::span(magnitudes).first(used_buckets(magnitudes)));
  if (signs == Signs::masked) {
    const std::uint64_t rounded = (std::uint64_t{counts.negatives} * 256 + counts.changes / 2) / counts.changes;
    coding.sign = static_cast<std::uint8_t>(std::clamp<std::uint64_t>(rounded, 1, 255));
  }
  return coding;
}

}  // namespace wdelta
