// SPDX-License-Identifier: Apache-2.0
// Numbers of a group's parameters on their way into bits and out of them: wdelta-delta.5, "Classes" and
// "Numbers of changes".
#pragma once

#include "engine/bits.hpp"

#include <bit>
#include <cstdint>
#include <string>

namespace wdelta {

/// Throws Error(corrupt) with an empty object.
[[noreturn]] void refuse_group_parameters(const std::string& what);

/// Throws that where `bits` end too early.
inline void require_whole(const BitReader& bits) {
  if (bits.is_overrun())
    refuse_group_parameters("they are cut off behind " + std::to_string(bits.size_bytes()) + " bytes");
}

/// A number, what it is expected to be, and the order of the code of the difference.
struct Expected {
  std::uint32_t value;
  std::uint32_t order;
};
struct Range {
  std::uint32_t least;
  std::uint32_t most;
};

/// The shorter code of differences that mostly are about as large as 2^order: so many zeros as it has of these, a one,
/// and what is left; from eight zeros on in an exponential Golomb code.
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

inline std::uint32_t bits(std::uint32_t difference, std::uint32_t order) {
  if (difference >> order < k_most_zeros) return (difference >> order) + 1 + order;
  const std::uint32_t beyond = difference - (k_most_zeros << order);
  return k_most_zeros + 2 * static_cast<std::uint32_t>(std::bit_width((std::uint64_t{beyond} >> order) + 1)) - 1 +
         order;
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

/// Writes what Hear reads: one description of what is told serves both. A number that may be less than 0 is from -most
/// to most, a whole one from 0 to most. A strewn number is one in the shorter code, expected to be from 0 to
/// range.most, which is less than 2^30.
class Tell {
 public:
  explicit Tell(BitWriter& bits) : bits_(&bits) {}
  void flag(bool& is_set) { bits_->write(is_set ? 1 : 0, 1); }
  void number(std::uint32_t& value, Expected expected, Range, const char*) {
    bits_->write_difference(value, expected.value, expected.order);
  }
  void strewn_number(std::uint32_t& value, Expected expected, Range, const char*) {
    short_code::write(zigzag_difference(value, expected.value), expected.order, *bits_);
  }
  void signed_number(std::int32_t& value, std::uint32_t order, std::int32_t, const char*) {
    bits_->write_exp_golomb(zigzag(value), order);
  }
  void whole_number(std::uint32_t& value, std::uint32_t order, std::uint32_t, const char*) {
    bits_->write_exp_golomb(value, order);
  }

 private:
  BitWriter* bits_;
};

class Hear {
 public:
  explicit Hear(BitReader& bits) : bits_(&bits) {}
  void flag(bool& is_set) {
    is_set = bits_->read(1) != 0;
    require_whole(*bits_);
  }
  void number(std::uint32_t& value, Expected expected, Range range, const char* what_is_wrong) {
    value = within(range, bits_->read_difference(expected.value, expected.order), what_is_wrong);
  }
  void strewn_number(std::uint32_t& value, Expected expected, Range range, const char* what_is_wrong) {
    const std::uint32_t most = 2 * range.most;  // of what is further away one way or the other, as zigzag() has it
    const std::uint32_t difference = short_code::read(*bits_, expected.order, most);
    require(difference <= most, what_is_wrong);
    value = within(range, std::int64_t{expected.value} + unzigzag(difference), what_is_wrong);
  }
  void signed_number(std::int32_t& value, std::uint32_t order, std::int32_t most, const char* what_is_wrong) {
    const std::int64_t heard = bits_->read_difference(0, order);
    require(heard >= -most && heard <= most, what_is_wrong);
    value = static_cast<std::int32_t>(heard);
  }
  void whole_number(std::uint32_t& value, std::uint32_t order, std::uint32_t most, const char* what_is_wrong) {
    value = bits_->read_exp_golomb(order);
    require(value <= most, what_is_wrong);
  }

 private:
  void require(bool is_right, const char* what_is_wrong) const {
    require_whole(*bits_);
    if (!is_right) refuse_group_parameters(what_is_wrong);
  }
  std::uint32_t within(const Range& range, std::int64_t heard, const char* what_is_wrong) const {
    require(heard >= range.least && heard <= range.most, what_is_wrong);
    return static_cast<std::uint32_t>(heard);
  }

  BitReader* bits_;
};

}  // namespace wdelta
