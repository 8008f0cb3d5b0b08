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
  std::size_t size_bytes() const { return columns.size() + rows.size(); }
};

/// One of SignMask's, of the columns or the rows.
inline std::uint8_t mask_bit(const std::vector<std::uint8_t>& bits, std::uint64_t at) {
  return static_cast<std::uint8_t>(bits.empty() ? 0 : (bits[at / 8] >> (at % 8)) & 1U);
}

/// Bit i of `flips`: is the sign of element `first` + i of the stretch flipped. `flips` has room for `count` bits in
/// words of 64; bits beyond are left unspecified.
void expand_sign_mask(const SignMask& mask, const MatrixPlace& place, std::uint64_t first, std::uint32_t count,
                      std::span<std::uint64_t> flips);

}  // namespace wdelta
