// SPDX-License-Identifier: Apache-2.0
// Plain structs only: kernel files include this and intrinsics, nothing else (lib/README.md, "Kernels").
#pragma once

#include <cstddef>
#include <cstdint>

namespace wdelta {

/// What an engine does for one element type, on blocks of at most 65,536 elements. Bits are compared, never numbers.
/// Arrays need no alignment. No function reads a byte outside `count` elements or writes outside what it says, but for
/// `positions` and `steps` of find_changes: these must have room for `count` + 64 entries.
///
/// A step is zigzag(order(next) - order(base)) modulo 2^(8·width), stored unsigned in the element's width, where
/// order() maps sign-magnitude bits to two's complement for floating elements (x ^ (x<0 ? 0x7f…f : 0)) and is the
/// identity for integers, and zigzag(s) = (s << 1) ^ (s >> (width-1)) maps small signed steps to small unsigned
/// numbers. The step of an element that did not change is 0.
struct BlockKernels {
  /// Writes the position and step of every element that differs, in ascending order; returns how many.
  std::uint32_t (*find_changes)(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                                void* steps);
  /// Adds `steps[i]` to the element at `positions[i]`, in place. The caller has checked that positions lie inside and
  /// that no two are the same.
  void (*apply_changes)(void* elements, const std::uint16_t* positions, const void* steps, std::uint32_t changes);
  /// Writes the step of every element, changed or not, split into byte planes: plane k holds byte k (least significant
  /// first) of each step, at planes + k * count.
  void (*split_steps)(const void* base, const void* next, std::uint32_t count, std::uint8_t* planes);
  /// The inverse: adds the steps in `planes` to the elements, in place.
  void (*merge_steps)(void* elements, std::uint32_t count, const std::uint8_t* planes);
};

/// Kernels by [log2 width][kind].
struct KernelTable {
  BlockKernels block[4][2];
};

extern const KernelTable k_kernels_scalar;
extern const KernelTable k_kernels_avx2;
extern const KernelTable k_kernels_avx512;

}  // namespace wdelta
