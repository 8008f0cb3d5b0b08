// SPDX-License-Identifier: Apache-2.0
// Memory for the changes of classed blocks, of as many blocks as are wanted at once.
#pragma once

#include "base/buffer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace wdelta {

/// One per thread. What was taken stays where it is until clear(), which gives nothing back to the system.
class ChangeRoom {
 public:
  struct Part {
    std::uint16_t* ranks;
    std::byte* moves;
  };

  void clear() {
    chunk_ = 0;
    in_chunk_ = 0;
    taken_bytes_ = 0;
  }
  /// For changes of elements so wide, and for what kernels write behind the last of them.
  Part take(std::size_t changes, std::size_t width_bytes) {
    const std::size_t rank_bytes = aligned((changes + k_slack_changes) * sizeof(std::uint16_t));
    const std::size_t size_bytes = rank_bytes + aligned((changes + k_slack_changes) * width_bytes);
    if (chunk_ < chunks_.size() && in_chunk_ + size_bytes > k_chunk_bytes) {
      ++chunk_;
      in_chunk_ = 0;
    }
    if (chunk_ == chunks_.size()) chunks_.emplace_back();
    std::uint8_t* const begin = chunks_[chunk_].of_size(std::max(k_chunk_bytes, size_bytes)).data() + in_chunk_;
    in_chunk_ += size_bytes;
    taken_bytes_ += size_bytes;
    return {reinterpret_cast<std::uint16_t*>(begin), reinterpret_cast<std::byte*>(begin + rank_bytes)};
  }
  std::size_t taken_bytes() const { return taken_bytes_; }

 private:
  static constexpr std::size_t k_chunk_bytes = std::size_t{1} << 20;
  static constexpr std::size_t k_slack_changes = 64;
  static std::size_t aligned(std::size_t size_bytes) { return (size_bytes + 63) / 64 * 64; }

  std::vector<Buffer> chunks_;
  std::size_t chunk_ = 0;
  std::size_t in_chunk_ = 0;
  std::size_t taken_bytes_ = 0;
};

}  // namespace wdelta
