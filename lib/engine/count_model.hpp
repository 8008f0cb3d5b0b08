// SPDX-License-Identifier: Apache-2.0
// How many changes a strip has of each class, told by what is expected: wdelta-delta.5, "Numbers of changes".
// `Exchange` is Tell or Hear (told_numbers.hpp).
#pragma once

#include "engine/group_tables.hpp"
#include "engine/told_numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>
#include <span>

namespace wdelta {

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

  /// How many are left for the classes to come.
  std::uint32_t left() const { return left_; }
  /// Those of the next class. For the last one nothing is told: it has all that are left.
  template <class Exchange>
  void exchange(Exchange& exchange, std::uint32_t& count) {
    if (shown_.size() == 1) {
      count = left_;
    } else {
      const auto expected = static_cast<std::uint32_t>(left_ * (shown_.front() + 1) / weights_left_);
      exchange.strewn_number(count, {expected, strewn_order(expected)}, {0, left_},
                             "a strip has fewer changes of a class than none, or more than are left");
    }
    left_ -= count;
    weights_left_ -= shown_.front() + 1;
    shown_ = shown_.subspan(1);
  }

 private:
  std::span<const std::uint64_t> shown_;  // of the next class and those behind it
  std::uint32_t left_;
  std::uint64_t weights_left_ = 0;
};

/// The strips of a group, one after the other.
class CountSeries {
 public:
  /// `reference`: what the group refers to, or null. Both have to outlive this.
  CountSeries(std::span<const ClassCoding> classes, const GroupReference* reference) : reference_(reference) {
    for (std::uint32_t k = 0; k < classes.size(); ++k) {
      if (classes[k].is_used()) used_[used_count_++] = k;
    }
  }

  /// Of the next strip, whether it is classed, which is returned, and how many changes it has of each class, where it
  /// is.
  template <class Exchange>
  bool exchange(Exchange exchange, ClassCounts& counts) {
    bool is_told = is_classed(counts);
    exchange.flag(is_told);
    if (!is_told) return false;
    if (strips_ > 0) {
      exchange_shares(exchange, counts, exchange_total(exchange, counts), earlier_);
    } else if (reference_ != nullptr) {
      std::uint32_t total = sum(counts);
      exchange.whole_number(total, k_first_order, k_most_batch_changes, k_too_many);
      // All classes of a group that refers to another are used.
      exchange_shares(exchange, counts, total, reference_->changes);
    } else {
      exchange_first(exchange, counts);
    }
    for (const std::uint32_t k : used()) earlier_[k] += counts[k];
    changes_ += sum(counts);
    ++strips_;
    return true;
  }

 private:
  using Changes = std::array<std::uint64_t, k_most_classes>;

  static constexpr std::uint32_t k_first_order = 6;
  static constexpr std::uint64_t k_telling_differences = 3;
  static constexpr const char* k_too_many = "a strip has fewer changes than none, or more than any may have";

  static std::uint32_t sum(const ClassCounts& counts) { return std::accumulate(counts.begin(), counts.end(), 0U); }
  std::span<const std::uint32_t> used() const { return std::span<const std::uint32_t>(used_).first(used_count_); }

  // Each class as often as the one before.
  template <class Exchange>
  void exchange_first(Exchange& exchange, ClassCounts& counts) const {
    std::uint32_t before = 0;
    for (const std::uint32_t k : used()) {
      exchange.number(counts[k], {before, k_first_order}, {0, k_most_batch_changes}, k_too_many);
      before = counts[k];
    }
  }

  // As many changes as the strips before have in the mean. How far off that may be follows from the number, where
  // changes are strewn, and from how far off it was lately, where they are not. Returns how many there are.
  template <class Exchange>
  std::uint32_t exchange_total(Exchange& exchange, const ClassCounts& counts) {
    const auto expected = static_cast<std::uint32_t>(changes_ / strips_);
    std::uint32_t order = strewn_order(static_cast<std::uint32_t>(expected + expected / strips_));
    if (strips_ > k_telling_differences && lately_ >= 4) {
      order = std::max(order, static_cast<std::uint32_t>(std::bit_width(lately_ / 4)) - 1);
    }
    std::uint32_t total = sum(counts);
    exchange.strewn_number(total, {expected, order}, {1, k_most_batch_changes}, k_too_many);
    const std::uint32_t difference = zigzag_difference(total, expected);
    lately_ = strips_ == 1 ? 4 * difference : lately_ - lately_ / 4 + difference;
    return total;
  }

  template <class Exchange>
  void exchange_shares(Exchange& exchange, ClassCounts& counts, std::uint32_t total, const Changes& shown) const {
    std::array<std::uint64_t, k_most_classes> of_used;
    for (std::size_t i = 0; i < used_count_; ++i) of_used[i] = shown[used_[i]];
    CountShares shares(std::span<const std::uint64_t>(of_used).first(used_count_), total);
    for (const std::uint32_t k : used()) shares.exchange(exchange, counts[k]);
  }

  const GroupReference* reference_;
  std::array<std::uint32_t, k_most_classes> used_{};  // the classes that are
  std::size_t used_count_ = 0;
  // Of the classed strips so far.
  std::uint64_t strips_ = 0;
  std::uint64_t changes_ = 0;
  Changes earlier_{};         // the same by class
  std::uint32_t lately_ = 0;  // four times by how much changes differed from what was expected, in the mean
};

}  // namespace wdelta
