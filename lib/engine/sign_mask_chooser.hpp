// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/scratch_vector.hpp"
#include "engine/sign_mask.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// One change: its element counted from the first of the stretch, and its sign.
class SignedChange {
 public:
  SignedChange() = default;
  /// `element` is below 2^31, `negative` 0 or 1.
  SignedChange(std::uint32_t element, std::uint32_t negative) : bits_(2 * element + negative) {}

  std::uint32_t element() const { return bits_ / 2; }
  std::uint32_t negative() const { return bits_ % 2; }
  void turn(std::uint32_t flip) { bits_ ^= flip; }

 private:
  std::uint32_t bits_ = 0;
};

/// Finds masks; keeps the memory that this takes for the next time.
class SignMaskChooser {
 public:
  /// The mask that saves most, its own bits counted in; empty where none saves anything, or where of many changes a
  /// sample says that none would. Turns the signs of `changes`, which ascend, round as it says.
  SignMask choose(std::span<SignedChange> changes, const MatrixPlace& place, std::uint64_t element_count);

 private:
  struct InColumn {
    std::uint16_t column;
    std::int16_t negative;  ///< 0, or all ones

    std::int32_t signed_as(std::int32_t value) const { return (value ^ negative) - negative; }
  };
  /// The changes from the end of the row before to this one's.
  struct Row {
    std::uint32_t row;
    std::uint32_t end;
    std::int32_t sum;  ///< of their signs
    std::uint32_t is_turned;
  };
  struct Column {
    std::uint32_t changes;
    std::uint32_t negatives;  ///< as the rows turn them

    std::int32_t sum() const { return static_cast<std::int32_t>(changes) - 2 * static_cast<std::int32_t>(negatives); }
  };

  bool may_pay(std::span<const SignedChange> changes, const MatrixPlace& place);
  void forget_rows();
  void find_rows(std::span<const SignedChange> changes, const MatrixPlace& place);
  template <class Visit>
  void each_row(Visit visit);
  std::int32_t sum_of(std::span<const InColumn> changes) const;
  double deviations_of_rows();
  double deviations_of_columns() const;
  double deviations_of_weighted_rows();
  void count_columns(std::uint64_t column_count);
  void weigh_columns();
  void scale_weights();
  void fit_rows();
  void fit_rows_and_columns();
  std::uint64_t agreeing_in_rows() const;
  std::uint64_t agreeing_in_columns() const;
  std::vector<std::uint8_t> packed_columns() const;
  std::vector<std::uint8_t> packed_rows(std::uint64_t row_count) const;

  ScratchVector<InColumn> in_columns_;  // changes, row by row
  std::vector<Row> rows_;               // those with changes
  std::vector<Column> columns_;
  std::vector<std::int64_t> column_sums_;  // of signs, as much as the rows are sure
  std::vector<std::int16_t> weights_;      // what rows are fitted to, column by column
};

}  // namespace wdelta
