// SPDX-License-Identifier: Apache-2.0
// How many changes a strip has of each class, told by what is expected: wdelta-delta.5, "Numbers of changes".
#pragma once

#include "engine/bits.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

namespace wdelta {

/// Differences that mostly are about as large as 2^order: so many zeros as it has of these, a one, and what is left;
/// from eight zeros on in an exponential Golomb code.
namespace short_code {

inline constexpr std::uint32_t k_most_zeros = 8;

inline void write(std::uint32_t difference, std::uint32_t order, BitWriter& bits) {
  if (difference >> order < k_most_zeros) {
    bits.write(0, difference >> order);
    bits.write(1, 1);
    bits.write(difference & ((1U << order) - 1), order);
  } else {
    bits.write(0, k_most_zeros);
    bits.write_exp_golomb(difference - (k_most_zeros << order), order);
  }
}

/// More than `most` where the bits are no number up to that.
inline std::uint32_t read(BitReader& bits, std::uint32_t order, std::uint32_t most) {
  const std::uint32_t zeros = bits.read_zeros(k_most_zeros);
  const std::uint32_t begin = zeros << order;
  if (zeros < k_most_zeros) return begin + bits.read(order);
  const std::uint32_t beyond = bits.read_exp_golomb(order);
  return beyond > most ? beyond : begin + beyond;
}

}  // namespace short_code

/// The order that suits how far off a number is, where so many are expected of what is strewn.
constexpr std::uint32_t strewn_order(std::uint32_t expected) {
  const std::uint32_t square = expected * 5 / 2;
  return square == 0 ? 0 : (static_cast<std::uint32_t>(std::bit_width(square)) - 1) / 2;
}

/// How the changes of a strip fall to its classes, one after the other, where others have shown what share each has.
class CountShares {
 public:
  /// `shown`: how many changes others have of each class. `total`: of the strip, at most 65,536.
  CountShares(std::span<const std::uint64_t> shown, std::uint32_t total) : shown_(shown), left_(total) {
    for (const std::uint64_t changes : shown) weights_left_ += changes + 1;
  }

  bool is_last() const { return shown_.size() == 1; }
  std::uint32_t left() const { return left_; }
  void write(std::uint32_t count, BitWriter& bits) {
    if (!is_last()) short_code::write(zigzag_difference(count, expected()), strewn_order(expected()), bits);
    take(count);
  }
  /// Not from 0 to left() where the bits are no such number; then nothing more is read.
  std::int64_t read(BitReader& bits) {
    std::int64_t count = left_;
    if (!is_last()) {
      const std::uint32_t most = 2 * left_ + 1;
      const std::uint32_t difference = short_code::read(bits, strewn_order(expected()), most);
      if (difference > most) return -1;
      count = std::int64_t{expected()} + unzigzag(difference);
    }
    if (count >= 0 && count <= left_) take(static_cast<std::uint32_t>(count));
    return count;
  }

 private:
  std::uint32_t expected() const { return static_cast<std::uint32_t>(left_ * (shown_.front() + 1) / weights_left_); }
  void take(std::uint32_t count) {
    left_ -= count;
    weights_left_ -= shown_.front() + 1;
    shown_ = shown_.subspan(1);
  }

  std::span<const std::uint64_t> shown_;  // of the next class and those behind it
  std::uint32_t left_;
  std::uint64_t weights_left_ = 0;
};

/// Foretells how many changes of one class the next strip has: as many as those before had in the mean. How far off
/// that may be follows from the number, where changes are strewn, and from how far off it was lately, where they are
/// not.
class CountModel {
 public:
  /// What the first strip is expected to have; else none.
  void expect(std::uint32_t count) { mean_ = 16 * count; }
  /// What it has, where that is told otherwise.
  void begin(std::uint32_t count) { learn(count, 0); }
  void write(std::uint32_t count, BitWriter& bits) {
    const std::uint32_t difference = zigzag_difference(count, expected());
    if (seen_ == 0) {
      bits.write_exp_golomb(difference, k_first_order);
    } else {
      short_code::write(difference, order(), bits);
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
  static constexpr std::uint32_t k_most_seen = 16;
  static constexpr std::uint32_t k_telling_differences = 3;

  std::uint32_t expected() const { return (mean_ + 8) / 16; }
  std::uint32_t order() const {
    const std::uint32_t strewn = strewn_order(expected() + expected() / seen_);
    const std::uint32_t lately = lately_ / 4;
    if (seen_ <= k_telling_differences || lately == 0) return strewn;
    return std::max(strewn, static_cast<std::uint32_t>(std::bit_width(lately)) - 1);
  }
  std::uint32_t read_difference(BitReader& bits, std::uint32_t most) const {
    return seen_ == 0 ? bits.read_exp_golomb(k_first_order) : short_code::read(bits, order(), 2 * most);
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
