// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace wdelta {

/// A stretch of a file that one thread works on at a time: the unit of work and of
/// Blake3Tree. It is read in pieces.
struct Segment {
  std::uint64_t begin = 0;
  std::size_t size_bytes = 0;

  std::uint64_t end() const { return begin + size_bytes; }
};

/// Calls visit(piece) for all of a segment, in order.
template <typename Visit>
void for_each_piece(const Segment& segment, std::size_t piece_bytes, Visit visit) {
  for (std::uint64_t begin = segment.begin; begin < segment.end(); begin += piece_bytes) {
    visit(Segment{begin, static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, segment.end() - begin))});
  }
}

/// Segment `index` of a file, as Blake3Tree cuts it.
inline Segment segment_at(std::uint64_t file_size_bytes, std::size_t index) {
  const std::uint64_t begin = index * std::uint64_t{Blake3Tree::k_segment_bytes};
  return {begin,
          static_cast<std::size_t>(std::min<std::uint64_t>(Blake3Tree::k_segment_bytes, file_size_bytes - begin))};
}

}  // namespace wdelta
