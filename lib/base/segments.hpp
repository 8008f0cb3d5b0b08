// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace wdelta {

/// A stretch of a file that one thread works on at a time: the unit of hashing, reading and writing.
struct Segment {
  std::uint64_t begin = 0;
  std::size_t size_bytes = 0;

  std::uint64_t end() const { return begin + size_bytes; }
};

/// Segment `index` of a file, as Blake3Tree cuts it.
inline Segment segment_at(std::uint64_t file_size_bytes, std::size_t index) {
  const std::uint64_t begin = index * std::uint64_t{Blake3Tree::k_segment_bytes};
  return {begin,
          static_cast<std::size_t>(std::min<std::uint64_t>(Blake3Tree::k_segment_bytes, file_size_bytes - begin))};
}

}  // namespace wdelta
