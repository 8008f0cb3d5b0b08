// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace wdelta::testing {

/// ClassedKernels::apply() for all blocks of a strip, one after the other: `changes` say the rest. Returns what it
/// returns for the last.
inline bool apply_strip(const Engine& engine, ElementType type, void* elements, std::uint32_t count,
                        ClassedChanges changes) {
  StripProgress progress{};
  changes.progress = &progress;
  changes.blocks_left = (count + k_block_elements - 1) / k_block_elements;
  auto* at = static_cast<std::uint8_t*>(elements);
  bool is_done = std::all_of(changes.class_changes, changes.class_changes + changes.bound_count + 1,
                             [](std::uint32_t of_class) { return of_class == 0; });
  for (; count > 0; --changes.blocks_left) {
    const std::uint32_t here = std::min(count, k_block_elements);
    is_done = engine.classed(type).apply(at, here, &changes);
    at += std::size_t{here} * type.width_bytes;
    if (changes.flips != nullptr) changes.flips += k_block_elements / 64;
    count -= here;
  }
  return is_done;
}

}  // namespace wdelta::testing
