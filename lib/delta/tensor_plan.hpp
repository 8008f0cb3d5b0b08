// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "delta/delta_reader.hpp"

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
  };
  std::vector<Step> steps;
};

}  // namespace wdelta
