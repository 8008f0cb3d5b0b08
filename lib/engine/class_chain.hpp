// SPDX-License-Identifier: Apache-2.0
// Classed blocks of a chain of deltas on their way through one block: its elements are looked at once for all of them,
// where each delta alone would ask again which class every element is in.
#pragma once

#include "engine/class_map.hpp"
#include "engine/engine.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace wdelta {

/// Owns its memory; one per thread.
class ClassChain {
 public:
  ClassChain();

  /// ClassedKernels::apply() of all of these, one after the other. Returns how many come before the first for which
  /// that is false; all, where there is none.
  std::size_t apply(const ClassedKernels& kernels, std::span<const ClassedChanges> deltas, void* elements,
                    std::uint32_t count);

 private:
  std::size_t fit(std::span<const ClassedChanges> deltas);
  bool add_ranges(const ClassedChanges& delta);
  void chain(const ClassedChanges& delta, ChainedChanges& chained) const;
  /// Classes of all together: the one that begins with bound `k` of the delta, counted from 1, or the last one's end.
  std::uint8_t first_class(const ClassedChanges& delta, std::uint32_t k) const;

  struct FreeScratch {
    void operator()(std::byte* scratch) const;
  };

  ClassBounds bounds_;                              // of those that fit together
  std::array<std::uint8_t, 257> class_of_bound_{};  // which class begins there; 256: behind the last
  std::array<ClassRange, k_most_class_ranges> ranges_{};
  std::uint32_t range_count_ = 0;
  std::array<std::array<std::uint8_t, k_most_classes + 1>, k_most_classes> range_of_{};  // by first and end; 1 more
  std::unique_ptr<ChainedChanges[]> chained_;

  std::unique_ptr<std::byte[], FreeScratch> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace wdelta
