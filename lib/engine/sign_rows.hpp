// SPDX-License-Identifier: Apache-2.0
// The signs of a matrix's changes, for a mask of its rows and columns to be looked for (wdelta-delta.5, "Sign masks").
#pragma once

#include "engine/kernels.hpp"
#include "engine/scratch_vector.hpp"
#include "engine/sign_mask.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

/// The changes of a stretch of a matrix, row by row. Keeps its memory from stretch to stretch.
class SignRows {
 public:
  /// Twice the column, and 1 where the sign is negative: says where in a table of two entries for each column a change
  /// finds what it looks for, whichever sign it has.
  using SignedColumn = std::uint32_t;
  /// Some of the changes, by their numbers.
  struct Part {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
  };
  /// One that has changes.
  struct Row {
    std::uint32_t index;  ///< 0: the one in which the stretch begins
    std::uint32_t begin;  ///< of its changes
    std::uint32_t end;
    std::uint32_t size() const { return end - begin; }
  };

  /// Forgets the stretch before. `place` has rows.
  void begin(const MatrixPlace& place);
  /// Appends the changes of a block, which begins with this element of the stretch; blocks come in order. Positions and
  /// steps, 1, 2 or 4 bytes each, as BlockKernels::find_changes() writes them.
  void add(const SignKernels& kernels, std::uint32_t first_element, std::span<const std::uint16_t> positions,
           const void* steps, std::uint8_t width_bytes);

  const MatrixPlace& place() const { return place_; }
  std::size_t size() const { return changes_.size(); }
  std::span<const SignedColumn> changes() const { return changes_.span(); }
  Part all() const { return {0, size()}; }

  /// The rows that have changes in a part; of the first and the last, those that lie in it. `of` must outlive it.
  class Rows {
   public:
    Rows(const SignRows& of, Part part);
    std::size_t size() const { return count_; }
    Row operator[](std::size_t i) const {
      return {indices_[i], std::max(begins_[i], first_), std::min(begins_[i + 1], end_)};
    }
    /// Where the changes of each begin, and behind the last; of the first and the last row, all that they have.
    const std::uint32_t* begins() const { return begins_; }

   private:
    const std::uint32_t* indices_;
    const std::uint32_t* begins_;
    std::size_t count_;
    std::uint32_t first_, end_;
  };
  Rows rows_in(Part part) const { return Rows(*this, part); }

 private:
  MatrixPlace place_;
  ScratchVector<SignedColumn> changes_;
  ScratchVector<std::uint32_t> indices_;  // of the rows
  ScratchVector<std::uint32_t> begins_;   // of their changes, and the end of the last row's
};

}  // namespace wdelta
