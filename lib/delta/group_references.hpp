// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/delta_reader.hpp"
#include "engine/group_reference.hpp"

#include <cstddef>
#include <memory>

namespace wdelta {

/// What groups of deltas refer to, as it is asked for. The last is kept, as the next group mostly asks for it too. One
/// per thread.
class GroupReferences {
 public:
  /// Of a group of `delta` whose elements have that type: null where it refers to none. Valid until the next call.
  /// Throws Error(corrupt) with an empty object.
  const GroupReference* of(const std::shared_ptr<const DeltaReader>& delta, const EntryGroup& group, ElementType type);

 private:
  // Of the one that is kept; with its delta, as another one could come to lie where that was.
  std::shared_ptr<const DeltaReader> delta_;
  std::size_t number_ = 0;
  ElementType type_;
  GroupReference reference_;
};

}  // namespace wdelta
