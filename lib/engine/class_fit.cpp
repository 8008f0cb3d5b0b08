// SPDX-License-Identifier: Apache-2.0
#include "engine/class_fit.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace wdelta {

void ClassSymbolCounts::add(std::span<const std::uint8_t> gap_symbols, std::span<const std::uint8_t> step_symbols,
                            const std::uint16_t* gap_numbers) {
  changes += static_cast<std::uint32_t>(gap_symbols.size());
  // Two tables in turn: most changes have the same symbol as the one before, and adding to what was just written waits
  // for it.
  std::array<std::array<std::uint32_t, k_gap_buckets>, 2> of_gaps{};
  std::array<std::array<std::uint32_t, k_magnitude_buckets>, 2> of_magnitudes{};
  for (std::size_t i = 0; i < gap_symbols.size(); ++i) {
    ++of_gaps[i % 2][gap_symbols[i]];
    ++of_magnitudes[i % 2][step_symbols[i] / 2];
    gap_sum += gap_numbers[i];
  }
  for (std::size_t i = 0; i < gaps.size(); ++i) gaps[i] += of_gaps[0][i] + of_gaps[1][i];
  for (std::size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] += of_magnitudes[0][i] + of_magnitudes[1][i];
}

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
  coding.magnitude_weights = weight_codes(std::span(counts.magnitudes).first(used_buckets(counts.magnitudes)));
  if (signs == Signs::masked) {
    const std::uint64_t rounded = (std::uint64_t{counts.negatives} * 256 + counts.changes / 2) / counts.changes;
    coding.sign = static_cast<std::uint8_t>(std::clamp<std::uint64_t>(rounded, 1, 255));
  }
  return coding;
}

}  // namespace wdelta
