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
#include <utility>

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

/// Foretells how many changes of one class the next strip has: as many as those before had in the mean. How far off
/// that may be follows from the number, where changes are strewn, and from how far off it was lately, where they are
/// not.
class CountModel {
 public:
  /// What the first strip is expected to have; else none.
  void expect(std::uint32_t count) { mean_ = 16 * count; }
  /// What it has, where that is told otherwise.
  void begin(std::uint32_t count) { learn(count, 0); }
  template <class Exchange>
  void exchange(Exchange& exchange, std::uint32_t& count) {
    constexpr const char* k_too_many = "a strip has fewer changes of a class than none, or more than any may have";
    constexpr Range range{0, k_most_batch_changes};
    const std::uint32_t expected = (mean_ + 8) / 16;
    if (seen_ == 0) {
      exchange.number(count, {expected, k_first_order}, range, k_too_many);
    } else {
      exchange.strewn_number(count, {expected, order(expected)}, range, k_too_many);
    }
    learn(count, zigzag_difference(count, expected));
  }

 private:
  static constexpr std::uint32_t k_first_order = 6;
  static constexpr std::uint32_t k_most_seen = 16;
  static constexpr std::uint32_t k_telling_differences = 3;

  std::uint32_t order(std::uint32_t expected) const {
    const std::uint32_t strewn = strewn_order(expected + expected / seen_);
    const std::uint32_t lately = lately_ / 4;
    if (seen_ <= k_telling_differences || lately == 0) return strewn;
    return std::max(strewn, static_cast<std::uint32_t>(std::bit_width(lately)) - 1);
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

/// The strips of a group, one after the other.
class CountSeries {
 public:
  /// `reference`: what the group refers to, or null. Both have to outlive this.
  CountSeries(std::span<const ClassCoding> classes, const GroupReference* reference)
      : classes_(classes), reference_(reference) {}

  /// Of the next strip, whether it is classed, which is returned, and how many changes it has of each class, where it
  /// is.
  template <class Exchange>
  bool exchange(Exchange exchange, ClassCounts& counts) {
    bool is_told = is_classed(counts);
    exchange.flag(is_told);
    if (!is_told) return false;
    const bool is_first = !std::exchange(is_begun_, true);
    if (is_first && reference_ != nullptr) {
      exchange_shares(exchange, counts);
      return true;
    }
    std::uint32_t before = 0;
    for (std::uint32_t k = 0; k < classes_.size(); ++k) {
      if (!classes_[k].is_used()) continue;
      if (is_first) models_[k].expect(before);
      models_[k].exchange(exchange, counts[k]);
      before = counts[k];
    }
    return true;
  }

 private:
  // All classes of a group that refers to another are used.
  template <class Exchange>
  void exchange_shares(Exchange& exchange, ClassCounts& counts) {
    constexpr std::uint32_t k_order = 6;
    std::uint32_t total = std::accumulate(counts.begin(), counts.end(), 0U);
    exchange.whole_number(total, k_order, k_most_batch_changes, "a strip has more changes than any may have");
    CountShares shares(std::span(reference_->changes).first(classes_.size()), total);
    for (std::uint32_t k = 0; k < classes_.size(); ++k) {
      shares.exchange(exchange, counts[k]);
      models_[k].begin(counts[k]);
    }
  }

  std::span<const ClassCoding> classes_;
  const GroupReference* reference_;
  std::array<CountModel, k_most_classes> models_;
  bool is_begun_ = false;
};

}  // namespace wdelta
