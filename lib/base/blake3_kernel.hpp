// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Seen by kernel files: nothing here may emit a symbol that the linker could share between them and baseline code.

namespace wdelta {

/// A way to run BLAKE3's compression over many independent inputs at once. Chaining values are eight 32-bit words.
struct Blake3Kernel {
  const char* name;

  /// The chaining values of `count` whole chunks of 1024 bytes that lie one after another at `input` (any alignment);
  /// the first is chunk number `first_chunk` of the stream. Writes 8 * `count` words.
  void (*hash_chunks)(const std::uint8_t* input, std::size_t count, const std::uint32_t* key, std::uint64_t first_chunk,
                      std::uint32_t flags, std::uint32_t* values);

  /// The same of memory that another process may be writing to: copies the chunks, and hashes what is in the copy; each
  /// byte of `input` is read once. `count` is a multiple of k_blake3_copied_chunks. Null where that is no faster than
  /// one after the other.
  void (*copy_and_hash_chunks)(const std::uint8_t* input, std::size_t count, const std::uint32_t* key,
                               std::uint64_t first_chunk, std::uint32_t flags, std::uint8_t* copy,
                               std::uint32_t* values);

  /// The chaining values of `count` parents of adjacent `children`: reads 16 * `count` words, writes 8 * `count`.
  /// `values` may be `children`.
  void (*hash_parents)(const std::uint32_t* children, std::size_t count, const std::uint32_t* key, std::uint32_t flags,
                       std::uint32_t* values);
};

extern const Blake3Kernel k_blake3_scalar;
extern const Blake3Kernel k_blake3_avx2;
extern const Blake3Kernel k_blake3_avx512;
/// The same instructions, but that words come into lanes by moves of single words: for
/// CpuFeatures::avx512_on_two_ports.
extern const Blake3Kernel k_blake3_avx512_moved;
/// The same, but that what is hashed soon is fetched into the first-level cache: for CpuFeatures::near_prefetches.
extern const Blake3Kernel k_blake3_avx512_moved_near;

/// One compression of a node that stands alone: a block of a short chunk, the root, extendable output. Writes all 16
/// words; the first 8 are the chaining value.
void blake3_compress(const std::uint32_t* chaining_value, const std::uint32_t* block, std::uint64_t counter,
                     std::uint32_t block_bytes, std::uint32_t flags, std::uint32_t* output);

constexpr std::size_t k_blake3_block_bytes = 64;
constexpr std::size_t k_blake3_chunk_bytes = 1024;
constexpr std::size_t k_blake3_chunk_blocks = 16;
constexpr std::size_t k_blake3_copied_chunks = 32;

constexpr std::uint32_t k_blake3_chunk_start = 1;
constexpr std::uint32_t k_blake3_chunk_end = 2;
constexpr std::uint32_t k_blake3_parent = 4;
constexpr std::uint32_t k_blake3_root = 8;
constexpr std::uint32_t k_blake3_keyed = 16;

constexpr std::uint32_t k_blake3_iv[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/// Which message word each step of each round takes: the specification's permutation, applied 0 to 6 times.
constexpr std::uint8_t k_blake3_schedule[7][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8},
    {3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1}, {10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6},
    {12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4}, {9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7},
    {11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13}};

}  // namespace wdelta
