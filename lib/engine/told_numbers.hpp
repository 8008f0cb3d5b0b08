// SPDX-License-Identifier: Apache-2.0
// Numbers of a group's parameters on their way into bits and out of them: wdelta-delta.5, "Classes".
#pragma once

#include "engine/bits.hpp"

#include <cstdint>
#include <string>

namespace wdelta {

/// Throws Error(corrupt) with an empty object.
[[noreturn]] void refuse_group_parameters(const std::string& what);

/// A number, what it is expected to be, and the order of the code of the difference.
struct Expected {
  std::uint32_t value;
  std::uint32_t order;
};
struct Range {
  std::uint32_t least;
  std::uint32_t most;
};

/// Writes what Hear reads: one description of what is told serves both. A number that may be less than 0 is from -most
/// to most, a whole one from 0 to most.
class Tell {
 public:
  explicit Tell(BitWriter& bits) : bits_(&bits) {}
  void flag(bool& is_set) { bits_->write(is_set ? 1 : 0, 1); }
  void number(std::uint32_t& value, Expected expected, Range, const char*) {
    bits_->write_difference(value, expected.value, expected.order);
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
  void flag(bool& is_set) { is_set = bits_->read(1) != 0; }
  void number(std::uint32_t& value, Expected expected, Range range, const char* what_is_wrong) {
    const std::int64_t heard = bits_->read_difference(expected.value, expected.order);
    require(heard >= range.least && heard <= range.most, what_is_wrong);
    value = static_cast<std::uint32_t>(heard);
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
    if (bits_->is_overrun()) refuse_group_parameters("they are cut off");
    if (!is_right) refuse_group_parameters(what_is_wrong);
  }

  BitReader* bits_;
};

}  // namespace wdelta
