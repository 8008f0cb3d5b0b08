// SPDX-License-Identifier: Apache-2.0
// Which way elements move is often shared along a row or a column of a matrix (wdelta-delta.5, "Sign masks").
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// Longer rows have no masks.
inline constexpr std::uint64_t k_longest_masked_row = 65536;

/// Where a stretch of elements lies in a matrix.
struct MatrixPlace {
  std::uint64_t row_elements = 0;   ///< elements in a row: the last number of the tensor's shape; 0: no matrix
  std::uint64_t first_element = 0;  ///< of the stretch, counted in the tensor

  bool has_rows() const { return row_elements > 1 && row_elements <= k_longest_masked_row; }
  /// Rows that `element_count` elements from the first on touch.
  std::uint64_t row_count(std::uint64_t element_count) const {
    return (first_element + element_count - 1) / row_elements - first_element / row_elements + 1;
  }
};

/// A bit per column and a bit per row, eight to a byte, lowest first. The sign of a change is flipped where its
/// column's bit and its row's differ. Empty: all bits are 0.
struct SignMask {
  std::vector<std::uint8_t> columns;
  std::vector<std::uint8_t> rows;  ///< from the row of the first element on

  bool is_empty() const { return columns.empty() && rows.empty(); }
};

/// One change: its element counted from the first of the stretch, and its sign.
class SignedChange {
 public:
  SignedChange() = default;
  /// `element` is below 2^31, `negative` 0 or 1.
  SignedChange(std::uint32_t element, std::uint32_t negative) : bits_(2 * element + negative) {}

  std::uint32_t element() const { return bits_ / 2; }
  std::uint32_t negative() const { return bits_ % 2; }
  std::int32_t sign() const { return 1 - 2 * static_cast<std::int32_t>(bits_ % 2); }
  void turn(std::uint32_t flip) { bits_ ^= flip; }

 private:
  std::uint32_t bits_ = 0;
};

/// Finds masks; keeps the memory that this takes for the next time.
class SignMaskChooser {
 public:
  /// The mask that saves most, its own bits counted in; empty where none saves anything. Turns the signs of `changes`,
  /// which ascend, round as it says.
  SignMask choose(std::span<SignedChange> changes, const MatrixPlace& place, std::uint64_t element_count);

 private:
  /// The changes in one row: from `first` to where the next begins.
  struct Row {
    std::uint32_t row;
    std::uint32_t first;
    std::uint32_t is_turned;
  };

  void find_rows(std::span<const SignedChange> changes, const MatrixPlace& place);
  template <class Visit>
  void each_row(Visit visit);
  void fit_columns(std::uint64_t column_count);
  void weigh_columns();
  void weigh_rows_and_columns();
  void fit_rows_and_columns();
  void fit_rows();
  std::uint64_t agreeing() const;
  std::vector<std::uint8_t> packed_columns() const;
  std::vector<std::uint8_t> packed_rows(std::uint64_t row_count) const;

  std::vector<SignedChange> in_column_;  // each change by its column
  std::vector<Row> rows_;                // those with changes, and one behind them
  std::vector<std::uint32_t> column_changes_;
  std::vector<std::uint32_t> column_negatives_;  // as the rows turn them
  std::vector<std::int64_t> column_sums_;        // of signs, as much as the rows are sure
  std::vector<std::int32_t> column_weights_;     // what rows are fitted to
  std::uint64_t agreeing_ = 0;  // changes whose sign is that of most in their line, when lines were last fitted
};

/// Bit i of `flips`: is the sign of element `first` + i of the stretch flipped. `flips` has room for `count` bits in
/// words of 64; bits beyond are left unspecified.
void expand_sign_mask(const SignMask& mask, const MatrixPlace& place, std::uint64_t first, std::uint32_t count,
                      std::span<std::uint64_t> flips);

}  // namespace wdelta
