// SPDX-License-Identifier: Apache-2.0
// How the blocks of BLAKE3's inputs come into lanes of AVX-512, and chaining values out of them; for the kernel file
// alone.
#pragma once

#include "base/blake3_kernel.hpp"
#include "base/blake3_moves.hpp"

#include <cstddef>
#include <cstdint>
#include <immintrin.h>

// GCC 12 takes the undefined operand inside its own intrinsics for one of ours (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define WDELTA_INLINE static inline __attribute__((always_inline))

namespace wdelta {
namespace {

constexpr std::size_t k_lanes = 16;

// One word of 16 lanes.
using Words = __m512i;

// Blocks of one group of 16 inputs, or of two. One group alone would wait for its own results: a half round is a chain
// of 12 dependent instructions, and there are only four such chains. Two groups fill the gaps; their states take all 32
// registers, and the message words come from memory.
template <std::size_t Groups>
struct Message {
  Words words[Groups][16];
};

// Four words of 16 lanes, so that the 128-bit quarters of output j hold word j, 4 + j, ... of the four inputs.
WDELTA_INLINE void transpose_quarters(Words a, Words b, Words c, Words d, Words (&rows)[4]) {
  const Words ab_low = _mm512_unpacklo_epi32(a, b);
  const Words ab_high = _mm512_unpackhi_epi32(a, b);
  const Words cd_low = _mm512_unpacklo_epi32(c, d);
  const Words cd_high = _mm512_unpackhi_epi32(c, d);
  rows[0] = _mm512_unpacklo_epi64(ab_low, cd_low);
  rows[1] = _mm512_unpackhi_epi64(ab_low, cd_low);
  rows[2] = _mm512_unpacklo_epi64(ab_high, cd_high);
  rows[3] = _mm512_unpackhi_epi64(ab_high, cd_high);
}

// How a block comes out of memory: read, and no more.
struct Read {
  __attribute__((always_inline)) Words operator()(const std::uint8_t* from) const { return _mm512_loadu_si512(from); }
};

// Read and copied to a place `distance` bytes away.
struct ReadAndCopy {
  std::ptrdiff_t distance;

  __attribute__((always_inline)) Words operator()(const std::uint8_t* from) const {
    Words words = _mm512_loadu_si512(from);
    // What is copied and what is hashed are the same even if another process writes there: the compiler must not read
    // it a second time.
    __asm__("" : "+v"(words));
    _mm512_storeu_si512(const_cast<std::uint8_t*>(from) + distance, words);
    return words;
  }
};

// 16 blocks of 16 words, one per lane, to 16 words of 16 lanes.
template <class Take = Read>
WDELTA_INLINE void load_transposed(const std::uint8_t* const* inputs, std::size_t offset, Words (&words)[16],
                                   Take take = {}) {
  Words rows[4][4];
#pragma GCC unroll 4
  for (unsigned q = 0; q < 4; ++q) {
    transpose_quarters(take(inputs[4 * q + 0] + offset), take(inputs[4 * q + 1] + offset),
                       take(inputs[4 * q + 2] + offset), take(inputs[4 * q + 3] + offset), rows[q]);
  }
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    const Words even_low = _mm512_shuffle_i32x4(rows[0][j], rows[1][j], 0x88);
    const Words even_high = _mm512_shuffle_i32x4(rows[2][j], rows[3][j], 0x88);
    const Words odd_low = _mm512_shuffle_i32x4(rows[0][j], rows[1][j], 0xdd);
    const Words odd_high = _mm512_shuffle_i32x4(rows[2][j], rows[3][j], 0xdd);
    words[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    words[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    words[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    words[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

// The way back for chaining values: 8 words of 16 lanes to 16 times 8 words.
WDELTA_INLINE void store_transposed(const Words (&first)[4], const Words (&second)[4], std::uint32_t* values) {
  const Words quarters_01 = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
  const Words quarters_23 = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  Words rows[2][4];
  transpose_quarters(first[0], first[1], first[2], first[3], rows[0]);
  transpose_quarters(second[0], second[1], second[2], second[3], rows[1]);
#pragma GCC unroll 4
  for (unsigned j = 0; j < 4; ++j) {
    const Words low = _mm512_permutex2var_epi64(rows[0][j], quarters_01, rows[1][j]);
    const Words high = _mm512_permutex2var_epi64(rows[0][j], quarters_23, rows[1][j]);
    __m256i* lane = reinterpret_cast<__m256i*>(values + 8 * j);
    _mm256_storeu_si256(lane, _mm512_castsi512_si256(low));
    _mm256_storeu_si256(lane + 4, _mm512_extracti64x4_epi64(low, 1));
    _mm256_storeu_si256(lane + 8, _mm512_castsi512_si256(high));
    _mm256_storeu_si256(lane + 12, _mm512_extracti64x4_epi64(high, 1));
  }
}

// Where the blocks of inputs come from, wherever these lie: each is put into lanes when its turn has come.
template <std::size_t Groups, class Take = Read>
class ScatteredBlocks {
 public:
  explicit ScatteredBlocks(const std::uint8_t* const* inputs, Take take = {}) : inputs_(inputs), take_(take) {}

  __attribute__((always_inline)) const std::uint8_t* first_input() const { return inputs_[0]; }
  __attribute__((always_inline)) const Message<Groups>& message(std::size_t block) {
#pragma GCC unroll 2
    for (std::size_t g = 0; g < Groups; ++g)
      load_transposed(inputs_ + g * k_lanes, block * k_blake3_block_bytes, message_.words[g], take_);
    return message_;
  }
  __attribute__((always_inline)) Idle aside(std::size_t) const { return {}; }

 private:
  const std::uint8_t* const* inputs_;
  [[no_unique_address]] Take take_;
  Message<Groups> message_;
};

constexpr std::size_t k_chunks_in_row = 2 * k_lanes;

// The same of rows of 32 chunks that lie one behind the other, for processors whose rounds leave no port to shuffles. A
// block's words are moved in pairs while the rounds are at the block before, and only two shuffles are left for each
// pair. Where chunks are copied, that is done two blocks ahead of the rounds, and words are moved out of the copy (make
// bench, "copy", Xeon 6: 5.9 GB/s, and 5.4 where all is shuffled).
template <bool IsCopied>
class RowsOfChunks {
  using Pairs = Moves<k_chunks_in_row, k_lanes>;

 public:
  static constexpr std::size_t k_groups = 2;

  /// `count` rows from `first` on, which are copied to `distance` bytes away.
  RowsOfChunks(const std::uint8_t* first, std::size_t count, std::ptrdiff_t distance)
      : row_(first), last_row_(first + (count - 1) * k_row_bytes), distance_(distance) {
    const Pairs pairs(first + distance, pairs_);
    for (unsigned lane = 0; lane < k_chunks_in_row; ++lane) {
      if constexpr (IsCopied) {
        const std::uint8_t* const chunk = first + lane * k_blake3_chunk_bytes;
        ReadAndCopy{distance}(chunk);
        ReadAndCopy{distance}(chunk + k_blake3_block_bytes);
      }
#pragma GCC unroll 8
      for (unsigned pair = 0; pair < Pairs::k_pairs; ++pair) pairs.move(lane, pair);
    }
  }

  __attribute__((always_inline)) bool is_done() const { return row_ > last_row_; }
  __attribute__((always_inline)) void next() { row_ += k_row_bytes; }

  __attribute__((always_inline)) const std::uint8_t* first_input() const { return row_; }

  // The next block's.
  __attribute__((always_inline)) const Message<k_groups>& message(std::size_t) {
#pragma GCC unroll 2
    for (std::size_t g = 0; g < k_groups; ++g) {
#pragma GCC unroll 8
      for (std::size_t pair = 0; pair < Pairs::k_pairs; ++pair) {
        const std::uint64_t* const from = pairs_ + (g * Pairs::k_pairs + pair) * k_lanes;
        const __m512 some = _mm512_load_ps(from);
        const __m512 others = _mm512_load_ps(from + k_lanes / 2);
        message_.words[g][2 * pair] = _mm512_castps_si512(_mm512_shuffle_ps(some, others, 0x88));
        message_.words[g][2 * pair + 1] = _mm512_castps_si512(_mm512_shuffle_ps(some, others, 0xdd));
      }
    }
    return message_;
  }

  class Aside {
   public:
    Aside(RowsOfChunks& rows, std::size_t block)
        : pairs_(rows.block(block + 1) + rows.distance_, rows.pairs_),
          from_(rows.block(block + 2)),
          to_(const_cast<std::uint8_t*>(from_) + rows.distance_),
          parked_(&rows.parked_) {
      // What is hashed already must not be read again: somebody may have written to it.
      if (rows.is_behind_last(block + 2)) from_ = to_;
    }

    __attribute__((always_inline)) void behind(unsigned step) const { pairs_.behind(step); }

    // Copies a line or two, evenly: many at a time would wait for their place in the first-level cache, and the moves
    // for them.
    __attribute__((always_inline)) void borrow(unsigned half, Words& words) const {
      constexpr unsigned k_halves = k_blake3_steps / 7;
      if constexpr (IsCopied) {
        copy(half, words);
        if (k_halves + half < k_chunks_in_row) copy(k_halves + half, words);
      }
    }

   private:
    using Line = __m512i_u;

    // The states take all registers, so that it needs one of theirs.
    __attribute__((always_inline)) void copy(unsigned lane, Words& words) const {
      const auto* const from = reinterpret_cast<const Line*>(from_ + lane * k_blake3_chunk_bytes);
      auto* const to = reinterpret_cast<Line*>(to_ + lane * k_blake3_chunk_bytes);
      __asm__ volatile(
          "vmovdqa64 %0, %1\n\t"
          "vmovdqu64 %3, %0\n\t"
          "vmovdqu64 %0, %2\n\t"
          "vmovdqa64 %1, %0"
          : "+v"(words), "=m"(*parked_), "=m"(*to)
          : "m"(*from));
    }

    Pairs pairs_;
    const std::uint8_t* from_;
    std::uint8_t* to_;
    Words* parked_;
  };
  __attribute__((always_inline)) Aside aside(std::size_t block) { return {*this, block}; }

 private:
  static constexpr std::size_t k_row_bytes = k_chunks_in_row * k_blake3_chunk_bytes;

  // Of the first lane, counted from this row's first on. Behind the last there is none: it is taken again, to where
  // nobody looks.
  __attribute__((always_inline)) const std::uint8_t* block(std::size_t index) const {
    if (is_behind_last(index)) index = k_blake3_chunk_blocks - 1;
    return row_ + index / k_blake3_chunk_blocks * k_row_bytes + index % k_blake3_chunk_blocks * k_blake3_block_bytes;
  }
  __attribute__((always_inline)) bool is_behind_last(std::size_t block) const {
    return row_ == last_row_ && block >= k_blake3_chunk_blocks;
  }

  const std::uint8_t* row_;
  const std::uint8_t* last_row_;
  std::ptrdiff_t distance_;
  Words parked_;
  // In one page with the message behind it (of two messages: across two pages Zen 4 is 2 % slower where chunks come
  // from memory).
  alignas(4096) std::uint64_t pairs_[k_chunks_in_row * Pairs::k_pairs];
  Message<k_groups> message_;
};

}  // namespace
}  // namespace wdelta
