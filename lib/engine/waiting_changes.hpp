// SPDX-License-Identifier: Apache-2.0
// Changes of classed blocks that were not made so far; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {
namespace {

/// Changes of the classes that have some still to come. Arrays of their own: a structure that is copied as a whole
/// would wait for its parts to be written.
template <class T>
struct Waiting {
  void begin(const ClassedChanges& all, const std::uint8_t* place_of_class) {
    std::uint32_t end = 0;
    count = 0;
    for (std::uint32_t k = 0; k <= all.bound_count; ++k) {
      const std::uint32_t next = end + all.progress->changes[k];
      end += all.class_changes[k];
      if (next == end) continue;
      class_of_place[count] = static_cast<std::uint8_t>(k);
      place[count] = place_of_class == nullptr ? k : place_of_class[k];
      ranks[count] = all.ranks + next;
      moves[count] = static_cast<const T*>(all.moves) + next;
      changes[count] = end - next;
      members[count++] = all.progress->members[k];
    }
  }
  /// Behind the block. Returns false where changes are left over in the end.
  bool finish(const ClassedChanges& all) const {
    if (all.blocks_left == 1) return count == 0;
    for (std::uint32_t k = 0; k <= all.bound_count; ++k) all.progress->changes[k] = all.class_changes[k];
    for (std::uint32_t i = 0; i < count; ++i) {
      all.progress->changes[class_of_place[i]] -= changes[i];
      all.progress->members[class_of_place[i]] = members[i];
    }
    return true;
  }
  /// Forgets those that have none left.
  void close_ranks() {
    std::uint32_t left = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      class_of_place[left] = class_of_place[i];
      place[left] = place[i];
      ranks[left] = ranks[i];
      moves[left] = moves[i];
      changes[left] = changes[i];
      members[left] = members[i];
      left += changes[i] != 0 ? 1 : 0;
    }
    count = left;
  }

  std::uint32_t count;
  std::uint8_t class_of_place[16];
  std::uint32_t place[16];  ///< the class, or where its members are
  const std::uint32_t* ranks[16];
  const T* moves[16];
  std::uint32_t changes[16];
  std::uint32_t members[16];  ///< of the strip, before the stretch
};

/// Behind the block, of each delta. Returns how many come before the first with changes left over.
template <class T>
std::uint32_t finish_all(const Waiting<T>* waiting, const ChainedChanges* deltas, std::uint32_t delta_count) {
  std::uint32_t right = delta_count;
  for (std::uint32_t i = delta_count; i > 0; --i) {
    if (!waiting[i - 1].finish(deltas[i - 1].changes)) right = i - 1;
  }
  return right;
}

}  // namespace
}  // namespace wdelta
