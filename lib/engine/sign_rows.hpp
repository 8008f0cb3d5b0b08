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
#include <vector>

namespace wdelta {

/// The changes of a stretch of a matrix: where each is and which way it goes, as they were found. Keeps its memory from
/// stretch to stretch.
class ChangeSigns {
 public:
  /// Some of the changes, by their numbers.
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
  std::size_t size() const { return positions_.size(); }
  Part all() const { return {0, size()}; }
  /// Calls visit(first element of the block, positions, what is 1 where a sign is negative) for each block's changes in
  /// a part.
  template <class Visit>
  void each_block(Part part, Visit visit) const;

 private:
  struct Block {
    std::uint32_t first_element;
    std::size_t end;  // of its changes, which begin where those of the block before end
  };

  MatrixPlace place_;
  std::vector<Block> blocks_;
  ScratchVector<std::uint16_t> positions_;
  ScratchVector<std::uint8_t> negatives_;
};

template <class Visit>
void ChangeSigns::each_block(Part part, Visit visit) const {
  auto block = std::ranges::upper_bound(blocks_, part.begin, {}, &Block::end);
  for (std::size_t begin = part.begin; begin < part.end; ++block) {
    const std::size_t count = std::min(block->end, part.end) - begin;
    visit(block->first_element, positions_.span().subspan(begin, count), negatives_.data() + begin);
    begin += count;
  }
}

/// Signs as a matrix has them, row by row. Keeps its memory from one stretch to the next.
class SignRows {
 public:
  /// Twice the column, and 1 where the sign is negative: says where in a table of two entries for each column a change
  /// finds what it looks for, whichever sign it has.
  using SignedColumn = std::uint32_t;
  /// One that has changes.
  struct Row {
    std::uint32_t index;  ///< 0: the one in which the stretch begins
    std::uint32_t begin;  ///< of its changes
    std::uint32_t end;
  };

  /// Forgets what it had, and has these parts of the changes now, one behind the other: the first and the last row of
  /// each may be there in part.
  void make(const SignKernels& kernels, const ChangeSigns& signs, std::span<const ChangeSigns::Part> parts);

  const MatrixPlace& place() const { return place_; }
  std::span<const SignedColumn> changes() const { return changes_.span(); }
  std::size_t row_count() const { return indices_.size(); }
  Row row(std::size_t i) const { return {indices_[i], begins_[i], begins_[i + 1]}; }
  /// Calls visit(row) for each.
  template <class Visit>
  void each_row(Visit visit) const {
    for (std::size_t i = 0; i < row_count(); ++i) visit(row(i));
  }

 private:
  void add(const SignKernels& kernels, std::uint32_t first_element, std::span<const std::uint16_t> positions,
           const std::uint8_t* negatives);

  MatrixPlace place_;
  ScratchVector<SignedColumn> changes_;
  ScratchVector<std::uint32_t> indices_;  // of the rows
  ScratchVector<std::uint32_t> begins_;   // of their changes, and the end of the last row's
};

/// What a row says, said of each of its changes. Most rows have a dozen changes or so, never the same number: a loop
/// over so many would end with a branch that was not foretold. `values` has room for k_spread_room more.
inline constexpr std::size_t k_spread_room = 32;

template <class T>
void spread(T value, T* values, std::size_t changes) {
  for (std::size_t i = 0; i < changes; i += k_spread_room) {
    std::fill_n(values + i, k_spread_room, value);  // the next row overwrites what goes too far
  }
}

}  // namespace wdelta
