// SPDX-License-Identifier: Apache-2.0
// Strips (wdelta-delta.5, "The block index"): consecutive blocks of a group through which classes are counted as
// through one.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace wdelta {

/// A power of two: no strip of any delta goes on behind a multiple of it.
inline constexpr std::uint32_t k_most_blocks_in_strip = 32;
/// How many of them encoders make a strip where so many of `elements` change: four, or as many as have about 4,096
/// changes. Longer ones take less for the numbers of changes that are told for each strip, but whoever wants a block
/// has to begin with those before it in its strip, and the changes of a chain's deltas should stay in cache.
constexpr std::uint32_t usual_blocks_in_strip(std::uint64_t changes, std::uint64_t elements) {
  std::uint32_t blocks = 4;
  while (blocks < k_most_blocks_in_strip && changes * blocks * 16 < elements) blocks *= 2;
  return blocks;
}

/// Consecutive blocks, or strips, of a group or a tensor, by their numbers there.
struct IndexRange {
  std::uint64_t first;
  std::uint64_t end;  ///< behind the last
};

/// How the blocks of a group make strips: those whose numbers in the tensor, divided by that of a strip's blocks, are
/// the same. The first and the last strip may have fewer.
struct Strips {
  std::uint64_t first_block = 0;  ///< of the group, as the tensor counts them
  std::uint64_t block_count = 0;
  std::uint32_t blocks_in_strip = 1;

  static constexpr bool may_have(std::uint64_t blocks) {
    return std::has_single_bit(blocks) && blocks <= k_most_blocks_in_strip;
  }
  std::uint64_t count() const { return block_count == 0 ? 0 : of(block_count - 1) + 1; }
  /// The strip that a block of the group is in, whatever their numbers: an index may claim any.
  std::uint64_t of(std::uint64_t block) const {
    return block / blocks_in_strip + (first_block % blocks_in_strip + block % blocks_in_strip) / blocks_in_strip;
  }
  IndexRange blocks_of(std::uint64_t strip) const {
    const std::uint64_t missing = first_block % blocks_in_strip;  // blocks of the first strip that the group has not
    const std::uint64_t end = (strip + 1) * blocks_in_strip - missing;
    return {strip == 0 ? 0 : strip * blocks_in_strip - missing, std::min(end, block_count)};
  }
};

}  // namespace wdelta
