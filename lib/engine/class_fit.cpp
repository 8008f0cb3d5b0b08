// SPDX-License-Identifier: Apache-2.0
#include "engine/class_fit.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>

namespace wdelta {
namespace {

WeightCodes weight_codes(std::span<const std::uint32_t> counts) {
  const std::uint32_t largest = *std::ranges::max_element(counts);
  WeightCodes codes;
  for (const std::uint32_t count : counts) codes.push_back(weight_code(count, largest));
  return codes;
}

// About how many bits it takes to tell a probability.
constexpr std::uint64_t k_probability_bits = 5;

std::uint64_t bits_as_cost(std::uint64_t bits) { return bits << 16; }

// Distances fall off about as if each were as much rarer than the one before. That a byte says it is worth more than
// how exactly weights say it only where there are few: for more it is not tried.
constexpr std::uint32_t k_few_magnitudes = 1024;

void fit_magnitudes(std::span<const std::uint32_t> counts, ClassCoding& coding) {
  coding.magnitude_buckets = static_cast<std::uint32_t>(counts.size());
  coding.magnitude_weights = weight_codes(counts);
  std::uint64_t changes = 0;
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto bucket = static_cast<std::uint32_t>(i);
    changes += counts[i];
    sum += counts[i] * (static_cast<double>(bucket_begin(bucket) + bucket_begin(bucket + 1) - 1) / 2);
  }
  if (changes > k_few_magnitudes) return;
  const auto all = static_cast<double>(changes);
  const auto cost = [&] { return cost_of(counts, coding.magnitude_frequencies()); };
  if (coding.magnitude_buckets == 1) return;
  std::uint64_t least = cost() + bits_as_cost(told_bits(coding.magnitude_weights));
  std::optional<std::uint8_t> best;
  // As the mean says, and, as few that are far make that large, as the share of the smallest says.
  for (const double probability : {all / (all + sum), counts[0] / all}) {
    coding.magnitude_probability = probability_code(probability);
    const std::uint64_t with_probability = cost() + bits_as_cost(k_probability_bits);
    if (with_probability > least) continue;
    least = with_probability;
    best = coding.magnitude_probability;
  }
  coding.magnitude_probability = best;
  if (best) coding.magnitude_weights.clear();
}

}  // namespace

std::uint8_t fitted_gap_probability(const ClassSymbolCounts& counts) {
  return probability_code(static_cast<double>(counts.changes) / static_cast<double>(counts.changes + counts.gap_sum));
}

std::uint8_t sign_probability(std::uint64_t negatives, std::uint64_t changes) {
  const std::uint64_t rounded = (negatives * 256 + changes / 2) / changes;
  return static_cast<std::uint8_t>(std::clamp<std::uint64_t>(rounded, 1, 255));
}

std::array<std::uint32_t, k_magnitude_buckets> magnitudes_of(const ClassSymbolCounts& counts) {
  std::array<std::uint32_t, k_magnitude_buckets> magnitudes;
  for (std::size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] = counts.steps[2 * i] + counts.steps[2 * i + 1];
  return magnitudes;
}

ClassCoding fitted(const ClassSymbolCounts& counts, Signs signs) {
  ClassCoding coding;
  if (counts.changes == 0) return coding;
  coding.gap_buckets = used_buckets(counts.gaps);
  const std::span<const std::uint32_t> gaps = std::span(counts.gaps).first(coding.gap_buckets);
  coding.gap_weights = weight_codes(gaps);
  const std::uint64_t weights_cost =
      cost_of(gaps, coding.gap_frequencies()) + bits_as_cost(told_bits(coding.gap_weights));
  coding.gap_probability = fitted_gap_probability(counts);
  if (cost_of(gaps, coding.gap_frequencies()) + bits_as_cost(k_probability_bits) <= weights_cost) {
    coding.gap_weights.clear();
  } else {
    coding.gap_probability.reset();
  }
  const auto magnitudes = magnitudes_of(counts);
  fit_magnitudes(std::span(magnitudes).first(used_buckets(magnitudes)), coding);
  if (signs == Signs::masked) coding.sign = sign_probability(counts.negatives, counts.changes);
  return coding;
}

}  // namespace wdelta
