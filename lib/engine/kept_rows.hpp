// SPDX-License-Identifier: Apache-2.0
// Which rows of a group have changes, block by block, so that the others can be skipped (skipped_rows.hpp).
#pragma once

#include "engine/change_symbols.hpp"
#include "engine/scratch_vector.hpp"
#include "engine/skipped_rows.hpp"

#include <cstdint>
#include <span>

namespace wdelta {

/// Keeps its memory from group to group.
class KeptRows {
 public:
  /// Forgets the group before. `place` has rows.
  void begin(const MatrixPlace& place, std::uint8_t width_bytes);
  /// Keeps the rows of a block in which something changes; blocks come in order, and those without changes need not.
  void keep(std::uint64_t block, const FoundChanges& changes);
  /// The same. Returns the elements that are kept, one behind the other, and where among them the changes are; until
  /// the next.
  FoundChanges add(std::uint64_t block, const FoundChanges& changes);

  /// Whether it pays to skip the others, in a group of so many elements with so many changes. Where these lie anywhere,
  /// to tell of rows costs more than it saves; where they lie together gaps gain by that, too, so that it has to be
  /// worth half as much again.
  bool pays(std::uint64_t group_elements, std::uint64_t changes) const;
  /// Of a group of so many elements.
  SkippedRows skipped(std::uint64_t group_elements) const;

 private:
  template <class Visit>
  void each_part(std::uint64_t block, const FoundChanges& changes, Visit visit);

  MatrixPlace place_;
  std::uint8_t width_bytes_ = 0;
  std::uint64_t element_count_ = 0;
  ScratchVector<std::uint64_t> parts_;  // numbers as RowParts has them
  // Of the newest block.
  ScratchVector<std::uint8_t> base_;
  ScratchVector<std::uint16_t> positions_;
};

}  // namespace wdelta
