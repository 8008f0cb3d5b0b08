// SPDX-License-Identifier: Apache-2.0
// What kernels that hash many inputs at once are asked for; for kernel files alone, each of which gets a copy of its
// own.
#pragma once

#include "base/blake3_kernel.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

struct Job {
  const std::uint8_t* const* inputs;  // one per lane
  std::size_t blocks;
  const std::uint32_t* key;
  std::uint64_t counter;       // of the first lane
  std::uint32_t counter_step;  // from lane to lane: 1 for chunks, 0 for parents
  std::uint32_t flags, first_flags, last_flags;
  std::size_t ahead_bytes;  // how far ahead of the first lane to prefetch
};

/// But for the inputs.
Job job_of_chunks(const std::uint32_t* key, std::uint64_t first_chunk, std::uint32_t flags, std::size_t lanes) {
  return {nullptr,
          k_blake3_chunk_blocks,
          key,
          first_chunk,
          1,
          flags,
          k_blake3_chunk_start,
          k_blake3_chunk_end,
          2 * lanes * k_blake3_chunk_bytes};
}
Job job_of_parents(const std::uint32_t* key, std::uint32_t flags) {
  return {nullptr, 1, key, 0, 0, flags | k_blake3_parent, 0, 0, 0};
}

}  // namespace
}  // namespace wdelta
