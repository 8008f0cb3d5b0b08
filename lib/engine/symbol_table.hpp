// SPDX-License-Identifier: Apache-2.0
// How often each symbol comes, and what that makes for the range coder (rANS; J. Duda, "Asymmetric numeral systems",
// arXiv:1311.2540), both ways side by side: wdelta-delta.5, "Frequencies".
#pragma once

#include "engine/bounded_list.hpp"
#include "engine/bucket.hpp"
#include "engine/kernels.hpp"

#include <cstdint>
#include <span>

namespace wdelta {

inline constexpr std::uint32_t k_scale_bits = DecodeTable::k_slot_bits;
inline constexpr std::uint32_t k_scale = 1U << k_scale_bits;

/// Frequencies of symbols 0, 1, ...: they add up to k_scale. 0: the symbol does not occur.
using Frequencies = BoundedList<std::uint16_t, k_scale>;
using Weights = BoundedList<std::uint64_t, k_scale>;

/// In proportion to `weights` as exactly as integers allow; at least 1 where the weight is not 0. The weights add up to
/// more than 0 and less than 2^52; at most k_scale of them.
Frequencies frequencies_of(std::span<const std::uint64_t> weights);

/// Gaps in a class where each element changes with the same probability, or distances of which each is as much rarer
/// than the one before: how a byte says that probability, and the weights of `bucket_count` buckets that follow from
/// it, the last holding all larger numbers.
std::uint8_t probability_code(double probability);
/// In 1/2^32: (16 + low four bits) / 32 / 2^(high four bits).
constexpr std::uint64_t probability_of_code(std::uint8_t code) {
  return std::uint64_t{16U + (code & 15U)} << (27 - (code >> 4));
}
Weights geometric_weights(std::uint8_t code, std::uint32_t bucket_count);

/// Weights in 6 bits: 0, then about four to the power of two up to 2^17.
constexpr std::uint32_t weight_of(std::uint32_t code) {
  return code == 0 ? 0 : (4 + ((code - 1) & 3)) << ((code - 1) >> 2);
}
/// The code whose weight is nearest to `count` when the largest count has the largest code. Not 0 unless count is.
std::uint8_t weight_code(std::uint32_t count, std::uint32_t largest_count);

/// Magnitudes with `weights`, each followed by a sign that is set with probability `sign`/256.
Frequencies step_frequencies(std::span<const std::uint64_t> weights, std::uint8_t sign);

/// Bits that symbols with these counts take, in 1/65536. Those that have no frequency do not occur.
std::uint64_t cost_of(std::span<const std::uint32_t> counts, const Frequencies& frequencies);

/// What the coder needs of one symbol, of frequency f: bits 0-51 are m with x / f = (2x * m) >> 52 for all x < 2^31,
/// which any number from 2^51 / f to less than 2^10 above that is (Granlund and Montgomery, "Division by invariant
/// integers using multiplication", 1994): so that its bits 0-9 can say where the slots begin. Bits 53-62: k_scale - f.
using EncodeEntry = std::uint64_t;
void fill_encode_entries(const Frequencies& frequencies, EncodeEntry* entries);

/// At most 128 symbols.
void fill_decode_table(const Frequencies& frequencies, DecodeTable& table);

}  // namespace wdelta
