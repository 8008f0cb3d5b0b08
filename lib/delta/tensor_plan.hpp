// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "delta/delta_reader.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace wdelta {

/// How one tensor of a file is had: bits from somewhere, then deltas to apply, oldest first.
struct TensorPlan {
  std::shared_ptr<const ByteReader> origin;  ///< null: all zero bits
  std::uint64_t origin_begin = 0;            ///< offset in origin of the first byte
  struct Step {
    std::shared_ptr<const DeltaReader> delta;
    const DeltaEntry* entry;
    /// row_elements() of the tensor as this delta makes it: later ones may give it another shape.
    std::uint64_t row_elements;
  };
  std::vector<Step> steps;

  /// The fewest blocks around this one that no step has a strip across the edges of: blocks are patched from the first
  /// of such on. No more than k_most_blocks_in_strip.
  IndexRange strips_around(std::uint64_t block) const {
    IndexRange blocks{block, block + 1};
    for (bool is_wider = true; is_wider;) {
      is_wider = false;
      for (const Step& step : steps) {
        const std::uint64_t first = step.entry->strip_of(blocks.first).first;
        const std::uint64_t end = step.entry->strip_of(blocks.end - 1).end;
        is_wider = is_wider || first < blocks.first || end > blocks.end;
        blocks = {std::min(first, blocks.first), std::max(end, blocks.end)};
      }
    }
    return blocks;
  }
};

}  // namespace wdelta
