// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/change_symbols.hpp"
#include "engine/scratch_vector.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wdelta {

/// Blocks of a group that wait for its classes, copied one behind the other into memory that is kept from group to
/// group.
class HeldBlocks {
 public:
  void clear() {
    blocks_.clear();
    base_.clear();
    positions_.clear();
    steps_.clear();
  }
  std::size_t count() const { return blocks_.size(); }

  /// `number`: of the block, in its group; `width_bytes`: of its elements, and so of steps.
  void add(std::size_t number, const FoundChanges& changes, std::uint8_t width_bytes) {
    blocks_.push_back({number, changes.base.size(), changes.positions.size()});
    base_.append(changes.base.data(), changes.base.size());
    positions_.append(changes.positions.data(), changes.positions.size());
    steps_.append(static_cast<const std::uint8_t*>(changes.steps), changes.positions.size() * width_bytes);
  }

  /// Calls visit(number, changes) for each, in the order in which they came.
  template <class Visit>
  void each(std::uint8_t width_bytes, Visit visit) const {
    std::size_t base_at = 0;
    std::size_t change_at = 0;
    for (const Block& block : blocks_) {
      visit(block.number,
            FoundChanges{base_.span().subspan(base_at, block.base_bytes),
                         positions_.span().subspan(change_at, block.changes), steps_.data() + change_at * width_bytes});
      base_at += block.base_bytes;
      change_at += block.changes;
    }
  }

 private:
  struct Block {
    std::size_t number;
    std::size_t base_bytes;
    std::size_t changes;
  };
  std::vector<Block> blocks_;
  ScratchVector<std::uint8_t> base_;
  ScratchVector<std::uint16_t> positions_;
  ScratchVector<std::uint8_t> steps_;
};

}  // namespace wdelta
