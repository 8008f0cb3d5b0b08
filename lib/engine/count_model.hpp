// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/bits.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace wdelta {

/// Foretells how many changes of one class the next strip has: as many as those before had in the mean. How far off
/// that may be follows from the number, where changes are strewn, and from how far off it was lately, where they are
/// not.
class CountModel {
 public:
  /// What the first strip is expected to have; else none.
  void expect(std::uint32_t count) { mean_ = 16 * count; }
  void write(std::uint32_t count, BitWriter& bits) {
    const std::uint32_t difference = zigzag_difference(count, expected());
    if (seen_ == 0) {
      bits.write_exp_golomb(difference, k_first_order);
    } else if (difference >> order() < k_most_zeros) {
      bits.write(0, difference >> order());
      bits.write(1, 1);
      bits.write(difference & ((1U << order()) - 1), order());
    } else {
      bits.write(0, k_most_zeros);
      bits.write_exp_golomb(difference - (k_most_zeros << order()), order());
    }
    learn(count, difference);
  }

  /// Not from 0 to `most` where the bits are no such number; then nothing more is read.
  std::int64_t read(BitReader& bits, std::uint32_t most) {
    const std::uint32_t difference = read_difference(bits, most);
    if (difference > 2 * most) return -1;
    const std::int64_t count = std::int64_t{expected()} + unzigzag(difference);
    if (count >= 0 && count <= most) learn(static_cast<std::uint32_t>(count), difference);
    return count;
  }

 private:
  static constexpr std::uint32_t k_first_order = 6;
  static constexpr std::uint32_t k_most_zeros = 8;
  static constexpr std::uint32_t k_most_seen = 16;
  static constexpr std::uint32_t k_telling_differences = 3;

  std::uint32_t expected() const { return (mean_ + 8) / 16; }
  std::uint32_t order() const {
    const auto log2 = [](std::uint32_t value) {
      return value == 0 ? 0 : static_cast<std::uint32_t>(std::bit_width(value)) - 1;
    };
    const std::uint32_t strewn = log2((expected() + expected() / seen_) * 5 / 2) / 2;
    return seen_ > k_telling_differences ? std::max(strewn, log2(lately_ / 4)) : strewn;
  }
  std::uint32_t read_difference(BitReader& bits, std::uint32_t most) const {
    if (seen_ == 0) return bits.read_exp_golomb(k_first_order);
    const std::uint32_t zeros = bits.read_zeros(k_most_zeros);
    const std::uint32_t begin = zeros << order();
    if (zeros < k_most_zeros) return begin + bits.read(order());
    const std::uint32_t beyond = bits.read_exp_golomb(order());
    return beyond > 2 * most ? beyond : begin + beyond;
  }
  void learn(std::uint32_t count, std::uint32_t difference) {
    // What the first one is off by says nothing of the others.
    if (seen_ > 0) lately_ = seen_ == 1 ? 4 * difference : lately_ - lately_ / 4 + difference;
    seen_ = std::min(seen_ + 1, k_most_seen);
    mean_ = (mean_ * (seen_ - 1) + 16 * count) / seen_;
  }

  std::uint32_t mean_ = 0;    // in 1/16
  std::uint32_t lately_ = 0;  // four times the mean difference
  std::uint32_t seen_ = 0;
};

}  // namespace wdelta
