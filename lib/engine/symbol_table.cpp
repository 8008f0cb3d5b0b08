// SPDX-License-Identifier: Apache-2.0
#include "engine/symbol_table.hpp"

#include "engine/fixed_log2.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace wdelta {

Frequencies frequencies_of(std::span<const std::uint64_t> weights) {
  std::uint64_t total = 0;
  for (const std::uint64_t weight : weights) total += weight;
  Frequencies frequencies(weights.size());
  std::int64_t missing = k_scale;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    frequencies[i] = static_cast<std::uint16_t>(std::max<std::uint64_t>(1, weights[i] * k_scale / total));
    missing -= frequencies[i];
  }
  // What rounding left over goes to the largest; what the rare ones took beyond their due comes from the largest.
  auto largest = std::ranges::max_element(frequencies);
  if (missing > 0) *largest = static_cast<std::uint16_t>(*largest + missing);
  for (; missing < 0; largest = std::ranges::max_element(frequencies)) {
    const auto taken = static_cast<std::uint16_t>(std::min<std::int64_t>(-missing, *largest / 2));
    *largest = static_cast<std::uint16_t>(*largest - taken);
    missing += taken;
  }
  return frequencies;
}

std::uint8_t probability_code(double probability) {
  // p = m / 2^e with m in [1/2, 1): in steps of 1/32, at most 31/32, and e at most 15.
  int exponent = 0;
  const double mantissa = std::frexp(std::clamp(probability, 1.0 / 65536, 31.0 / 32), &exponent);
  int code = -exponent * 16 + static_cast<int>(std::lround(mantissa * 32)) - 16;
  // Rounded up to the next power of two.
  if (std::lround(mantissa * 32) == 32) code = -(exponent + 1) * 16;
  return static_cast<std::uint8_t>(std::clamp(code, 0, 255));
}

Weights geometric_weights(std::uint8_t code, std::uint32_t bucket_count) {
  // beyond(n): the probability of a gap of n or more, in 1/2^32, rounded down at every product. Buckets begin at 0 to 3
  // and then at 2^e and 3 * 2^(e-1).
  const auto product = [](std::uint64_t a, std::uint64_t b) { return (a * b) >> 32; };
  const std::uint64_t one = std::uint64_t{1} << 32;
  std::array<std::uint64_t, k_magnitude_buckets + 2> beyond{};
  std::uint64_t half = one - probability_of_code(code);  // beyond(2^(e-1))
  beyond[0] = one;
  beyond[1] = half;
  for (std::uint32_t bucket = 2; bucket < bucket_count; bucket += 2) {
    const std::uint64_t whole = product(half, half);
    beyond[bucket] = whole;
    beyond[bucket + 1] = product(whole, half);
    half = whole;
  }
  beyond[bucket_count] = 0;
  Weights weights(bucket_count);
  for (std::uint32_t bucket = 0; bucket < bucket_count; ++bucket) {
    weights[bucket] = std::max<std::uint64_t>(1, beyond[bucket] - beyond[bucket + 1]);
  }
  return weights;
}

std::uint8_t weight_code(std::uint32_t count, std::uint32_t largest_count) {
  if (count == 0) return 0;
  const std::uint64_t wanted = std::uint64_t{count} * weight_of(63) / largest_count;
  // The largest whose weight is not more, or 1: four from each power of two on.
  const std::uint32_t doublings = static_cast<std::uint32_t>(std::bit_width(wanted | 4)) - 3;
  const std::uint64_t quarters = std::max<std::uint64_t>(4, wanted >> doublings) - 4;
  const std::uint32_t code_below = 1 + 4 * doublings + static_cast<std::uint32_t>(quarters);
  auto code = static_cast<std::uint8_t>(std::min(code_below, 63U));
  // Between two: the nearer.
  if (code < 63 && wanted - std::min<std::uint64_t>(wanted, weight_of(code)) > weight_of(code + 1U) - wanted) ++code;
  return code;
}

Frequencies step_frequencies(std::span<const std::uint64_t> weights, std::uint8_t sign) {
  Weights both(2 * weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    both[2 * i] = weights[i] * (256U - sign);
    both[2 * i + 1] = weights[i] * sign;
  }
  return frequencies_of(both);
}

std::uint64_t cost_of(std::span<const std::uint32_t> counts, const Frequencies& frequencies) {
  const std::size_t symbols = std::min(counts.size(), frequencies.size());
  std::uint64_t cost = 0;
  for (std::size_t i = 0; i < symbols; ++i) {
    cost += counts[i] * std::uint64_t{(k_scale_bits << 16) - log2_fixed(frequencies[i])};
  }
  return cost;
}

void fill_encode_entries(const Frequencies& frequencies, EncodeEntry* entries) {
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint64_t frequency = frequencies[i];
    if (frequency == 0) continue;
    const std::uint64_t least = ((std::uint64_t{1} << 51) + frequency - 1) / frequency;
    const std::uint64_t factor = least + (begin - least) % k_scale;
    entries[i] = factor | (k_scale - frequency) << 53;
    begin += frequency;
  }
}

void fill_decode_table(const Frequencies& frequencies, DecodeTable& table) {
  constexpr std::uint32_t k_at_once = 8;  // so that a compiler makes vectors of them
  constexpr std::uint32_t k_next_slot = 1U << DecodeTable::k_place_shift;
  std::uint32_t* slots = table.slots;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    std::uint32_t left = frequencies[i];
    std::uint32_t slot = left | static_cast<std::uint32_t>(i) << DecodeTable::k_symbol_shift;
    for (; left >= k_at_once; left -= k_at_once, slot += k_at_once * k_next_slot) {
      for (std::uint32_t k = 0; k < k_at_once; ++k) slots[k] = slot + k * k_next_slot;
      slots += k_at_once;
    }
    for (; left > 0; --left, slot += k_next_slot) *slots++ = slot;
  }
}

}  // namespace wdelta
