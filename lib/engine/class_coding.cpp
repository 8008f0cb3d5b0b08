// SPDX-License-Identifier: Apache-2.0
#include "engine/class_coding.hpp"

#include "base/error.hpp"
#include "engine/told_numbers.hpp"

#include <algorithm>

namespace wdelta {
namespace {

constexpr std::uint32_t k_codes_of_octave = 16;   // of probabilities
constexpr std::uint32_t k_buckets_of_octave = 2;  // of numbers

// Orders of exponential Golomb codes.
constexpr std::uint32_t k_gap_buckets_order = 2;
constexpr std::uint32_t k_rarity_order = 3;
constexpr std::uint32_t k_sign_order = 3;
constexpr std::uint32_t k_weight_order = 2;

void require_weight(const WeightCodes& weights) {
  if (std::ranges::all_of(weights, [](std::uint8_t weight) { return weight == 0; }))
    refuse_group_parameters("all weights are 0");
}

Weights weights_of(const WeightCodes& codes) {
  Weights weights;
  for (const std::uint8_t code : codes) weights.push_back(weight_of(code));
  return weights;
}

Weights magnitude_weights_of(const ClassCoding& coding) {
  return coding.magnitude_probability ? geometric_weights(*coding.magnitude_probability, coding.magnitude_buckets)
                                      : weights_of(coding.magnitude_weights);
}

template <class Exchange>
void exchange_weights(Exchange& exchange, WeightCodes& weights, std::uint32_t count) {
  if (weights.size() != count) weights = WeightCodes(count);
  std::uint32_t before = k_last_weight_code;
  for (std::uint8_t& weight : weights) {
    std::uint32_t code = weight;
    exchange.number(code, {before, k_weight_order}, {0, k_last_weight_code}, "a weight has a code that there is not");
    weight = static_cast<std::uint8_t>(code);
    before = code;
  }
  require_weight(weights);
}

/// Returns the probability's rarity.
template <class Exchange>
std::uint32_t exchange_probability(Exchange& exchange, std::optional<std::uint8_t>& code, std::uint32_t expected) {
  std::uint32_t value = rarity(code.value_or(0));
  exchange.number(value, {expected, k_rarity_order}, {0, k_last_probability_code},
                  "a probability has a code that there is not");
  code = static_cast<std::uint8_t>(rarity(value));
  return value;
}

}  // namespace

void refuse_group_parameters(const std::string& what) { throw Error(Fault::corrupt, "", "group parameters: " + what); }

Frequencies ClassCoding::gap_frequencies() const {
  return frequencies_of(gap_probability ? geometric_weights(*gap_probability, gap_buckets) : weights_of(gap_weights));
}

Frequencies ClassCoding::magnitude_frequencies() const { return frequencies_of(magnitude_weights_of(*this)); }

Frequencies ClassCoding::step_frequencies() const {
  return wdelta::step_frequencies(magnitude_weights_of(*this), sign);
}

template <class Exchange>
void ClassSeries::exchange(Exchange exchange, ClassCoding& coding) {
  bool is_used = coding.is_used();
  exchange.flag(is_used);
  if (!is_used) return;

  const Range gap_range{1, limits_.gap_buckets};
  constexpr const char* k_far_gap = "a gap is longer than a strip";
  bool has_weights = !coding.gap_probability;
  exchange.flag(has_weights);
  if (has_weights) {
    exchange.number(coding.gap_buckets, {gap_buckets_, k_gap_buckets_order}, gap_range, k_far_gap);
    exchange_weights(exchange, coding.gap_weights, coding.gap_buckets);
  } else {
    const std::uint32_t rarity = exchange_probability(exchange, coding.gap_probability, gap_rarity_);
    exchange.number(coding.gap_buckets, {expected_gap_buckets(rarity), 0}, gap_range, k_far_gap);
    gap_rarity_ = std::min(rarity + k_codes_of_octave, k_last_probability_code);
  }
  gap_buckets_ = coding.gap_buckets;

  exchange.number(coding.magnitude_buckets, {magnitude_buckets_, 0}, {1, limits_.magnitude_buckets},
                  "a step is wider than the element");
  magnitude_buckets_ = std::max(coding.magnitude_buckets, k_buckets_of_octave + 1) - k_buckets_of_octave;
  exchange_magnitudes(exchange, coding);

  if (!limits_.is_masked) return;
  std::uint32_t sign = coding.sign;
  exchange.number(sign, {sign_, k_sign_order}, {1, 255}, "a sign is always or never set");
  coding.sign = static_cast<std::uint8_t>(sign_ = sign);
}

// Of one bucket nothing is told: it has all the weight.
template <class Exchange>
void ClassSeries::exchange_magnitudes(Exchange& exchange, ClassCoding& coding) {
  if (coding.magnitude_buckets == 1) {
    coding.magnitude_weights = {k_last_weight_code};
    return;
  }
  bool has_weights = !coding.magnitude_probability;
  exchange.flag(has_weights);
  if (has_weights) {
    exchange_weights(exchange, coding.magnitude_weights, coding.magnitude_buckets);
  } else {
    const std::uint32_t rarity = exchange_probability(exchange, coding.magnitude_probability, magnitude_rarity_);
    magnitude_rarity_ = std::max(rarity, k_codes_of_octave) - k_codes_of_octave;
  }
}

void ClassSeries::write(ClassCoding coding, BitWriter& bits) { exchange(Tell(bits), coding); }

ClassCoding ClassSeries::read(BitReader& bits) {
  ClassCoding coding;
  exchange(Hear(bits), coding);
  return coding;
}

std::uint32_t told_bits(const WeightCodes& weights) {
  std::uint32_t bits = 0;
  std::uint32_t before = k_last_weight_code;
  for (const std::uint8_t weight : weights) {
    bits += difference_bits(weight, before, k_weight_order);
    before = weight;
  }
  return bits;
}

}  // namespace wdelta
