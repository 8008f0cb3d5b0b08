// SPDX-License-Identifier: Apache-2.0
// Classed blocks of a chain of deltas on their way through one block: its elements are looked at once for all of them,
// where each delta alone would ask again which class every element is in.
#pragma once

#include "engine/engine.hpp"
#include "engine/group_tables.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// Owns its memory; one per thread.
class ClassChain {
 public:
  /// Bounds of the deltas that will go over the next block, in that order; they must stay where they are until then.
  void begin(std::span<const ClassBounds* const> bounds);
  /// The block's elements were changed by something else.
  void forget_elements() { is_mapped_ = false; }

  /// ClassedKernels::apply() of the next delta, or of one by itself where none was announced.
  bool apply(const ClassedKernels& kernels, const ClassedChanges& changes, void* elements, std::uint32_t count);

 private:
  void fit_next();
  bool add_ranges(const ClassBounds& bounds);
  void map(const ChainKernels& chain, const void* elements, std::uint32_t count);

  struct FreeMap {
    void operator()(std::byte* map) const;
  };

  std::vector<const ClassBounds*> deltas_;
  std::size_t next_ = 0;
  // As many as an engine can keep apart, and what their classes are ranges of.
  std::size_t first_fitting_ = 0;
  std::size_t end_fitting_ = 0;
  ClassBounds bounds_;
  std::array<std::uint8_t, 257> first_class_{};  // by the bound that a class begins with; 256: behind the last
  std::array<ClassRange, k_most_class_ranges> ranges_;
  std::uint32_t range_count_ = 0;
  std::array<std::array<std::uint8_t, k_most_classes + 1>, k_most_classes> range_of_{};  // by first and end; 1 more

  bool is_mapped_ = false;
  std::unique_ptr<std::byte[], FreeMap> map_;
  std::size_t map_bytes_ = 0;
};

}  // namespace wdelta
