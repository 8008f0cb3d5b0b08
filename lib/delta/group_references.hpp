// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/delta_reader.hpp"
#include "engine/group_reference.hpp"
#include "engine/known_groups.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace wdelta {

/// What groups of deltas refer to, as it is asked for. A few are kept: the tensors of a layer take turns. One per
/// thread.
class GroupReferences {
 public:
  /// Of a group of `delta` whose elements have that type: null where it refers to none. Valid until the next call.
  /// Throws Error(corrupt) with an empty object.
  const GroupReference* of(const std::shared_ptr<const DeltaReader>& delta, const EntryGroup& group, ElementType type);

 private:
  // What an encoder refers to is among the newest of each type: of two types, all.
  static constexpr std::size_t k_most_kept = 2 * KnownGroups::k_most;
  struct Kept {
    std::size_t number;
    ElementType type;
    GroupReference reference;
  };

  std::shared_ptr<const DeltaReader> delta_;  // held, as another one could come to lie where it was
  std::vector<Kept> kept_;
  std::size_t oldest_ = 0;  // once there are as many as are kept
};

}  // namespace wdelta
