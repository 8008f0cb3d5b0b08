// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/blake3_kernel.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

/// The last compression of a subtree, still to be done: only its owner knows whether it is the root.
struct Blake3::Node {
  Words chaining_value;
  std::array<std::uint32_t, 16> block;
  std::uint64_t counter;
  std::uint32_t block_bytes;
  std::uint32_t flags;

  /// The chunk of up to 1024 bytes (0 only for an empty stream) with that number.
  static Node chunk(std::span<const std::uint8_t> bytes, const Words& key, std::uint64_t number, std::uint32_t flags);
  static Node parent(const Words& left, const Words& right, const Words& key, std::uint32_t flags);

  /// The parent of all `values` (two or more), which are of neighbouring subtrees of one size, the last one possibly
  /// smaller. Overwrites them.
  static Node join(const Blake3Kernel& kernel, std::span<Words> values, const Words& key, std::uint32_t flags);

  Words value() const;
  Words root_value() const;
  /// The output stream from its start.
  void root_output(std::span<std::uint8_t> output) const;
};

constexpr std::size_t k_blake3_subtree_chunks = Blake3Tree::k_segment_bytes / k_blake3_chunk_bytes;

constexpr std::size_t k_blake3_group_chunks = 256;
constexpr std::size_t k_blake3_group_values = 16;

/// Hashes up to k_blake3_group_chunks whole chunks, a power of two, and reduces them as long as a kernel runs at full
/// width: writes the up to k_blake3_group_values chaining values that are left, and returns how many.
std::size_t blake3_group(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key, std::uint32_t flags,
                         std::span<const std::uint8_t> chunks, std::uint64_t first_chunk, std::uint32_t* values);

/// Its second half: what is left of a group's chaining values, which it overwrites.
std::size_t blake3_group_reduced(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key,
                                 std::uint32_t flags, std::uint32_t* group, std::size_t count, std::uint32_t* values);

/// The chaining values of chunks, any number of them, in memory that another process may be writing to: copies the
/// chunks, and hashes what is in the copy.
void blake3_copied_chunks(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key, std::uint32_t flags,
                          const std::uint8_t* chunks, std::uint64_t first_chunk, std::span<std::uint8_t> copy,
                          std::uint32_t* values);

/// The chaining value above `count` of them, a power of two. Overwrites them.
std::array<std::uint32_t, 8> blake3_reduced(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key,
                                            std::uint32_t flags, std::uint32_t* values, std::size_t count);

/// The chaining value of a whole subtree below the root: `chunk_count` chunks at `bytes`, a power of two up to
/// k_blake3_subtree_chunks. Needs 16 KiB of stack.
std::array<std::uint32_t, 8> blake3_subtree(const Blake3Kernel& kernel, const std::array<std::uint32_t, 8>& key,
                                            std::uint32_t flags, const std::uint8_t* bytes, std::size_t chunk_count,
                                            std::uint64_t first_chunk);

/// Eight words, little-endian.
Digest blake3_digest(const std::array<std::uint32_t, 8>& words);

}  // namespace wdelta
