// SPDX-License-Identifier: Apache-2.0
// The signs of a matrix's changes, for a mask of its rows and columns to be looked for (wdelta-delta.5, "Sign masks").
#pragma once

#include "engine/scratch_vector.hpp"
#include "engine/sign_mask.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

/// Changes of a stretch of a matrix, as their elements lie, row by row. Keeps its memory from stretch to stretch.
class SignRows {
 public:
  /// Twice the column, and 1 where the sign is negative: says where in a table of two entries for each column a change
  /// finds what it looks for, whichever sign it has.
  using SignedColumn = std::uint32_t;
  /// One that has changes. They begin where those of the row before end.
  struct Row {
    std::uint32_t index;  ///< 0: the one in which the stretch begins
    std::uint32_t end;
  };
  /// Some of the changes; those of the first and the last row may be there in part.
  struct Part {
    std::size_t begin, end;
  };

  /// Forgets the stretch before. `place` has rows.
  void begin(const MatrixPlace& place);
  /// Appends the changes of a block, which begins with this element of the stretch; blocks come in order. Positions and
  /// steps, 1, 2 or 4 bytes each, as BlockKernels::find_changes() writes them.
  void add(std::uint32_t first_element, std::span<const std::uint16_t> positions, const void* steps,
           std::uint8_t width_bytes);

  const MatrixPlace& place() const { return place_; }
  std::span<const Row> rows() const { return rows_.span(); }
  std::span<const SignedColumn> changes() const { return changes_.span(); }
  std::span<const SignedColumn> changes(Part part) const {
    return changes().subspan(part.begin, part.end - part.begin);
  }
  Part all() const { return {0, changes_.size()}; }

  /// Calls visit(row, its part) for each row of a part.
  template <class Visit>
  void each_row(Part part, Visit visit) const;

 private:
  template <class Step>
  void add_steps(std::uint32_t first_element, std::span<const std::uint16_t> positions, const Step* steps);

  MatrixPlace place_;
  std::uint64_t first_column_ = 0;
  std::uint64_t row_factor_ = 0;
  ScratchVector<SignedColumn> changes_;
  ScratchVector<Row> rows_;
};

template <class Visit>
void SignRows::each_row(Part part, Visit visit) const {
  if (part.begin == part.end) return;
  auto row = std::ranges::upper_bound(rows(), part.begin, {}, &Row::end);
  for (std::size_t begin = part.begin; begin < part.end; ++row) {
    const std::size_t end = std::min<std::size_t>(row->end, part.end);
    visit(*row, Part{begin, end});
    begin = end;
  }
}

/// What each row of a part says, said of each of its changes. Most rows have a dozen changes or so, never the same
/// number: a loop over so many would end with a branch that was not foretold. `values` has room for k_spread_room more.
inline constexpr std::size_t k_spread_room = 32;

template <class T>
void spread(T value, SignRows::Part row, T* values) {
  for (std::size_t i = row.begin; i < row.end; i += k_spread_room) {
    std::fill_n(values + i, k_spread_room, value);  // the next row overwrites what goes too far
  }
}

}  // namespace wdelta
