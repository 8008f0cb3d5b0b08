// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/xet/chunker.hpp"
#include "store/xet/xorb_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

constexpr std::size_t k_largest_xorb_bytes = std::size_t{64} << 20;
constexpr std::size_t k_most_xorb_chunks = 8192;

/// What a xorb or a shard tells of one chunk.
struct XorbChunk {
  XetHash hash;
  std::uint32_t size_bytes = 0;
};

/// Many chunks in one object: the unit in which the Hub takes bytes. Movable.
struct Xorb {
  XetHash hash;
  std::vector<XorbChunk> chunks;
  /// What is sent: for each chunk a header of 8 bytes and its bytes as they are. There is no footer, and nothing is
  /// compressed: what wdelta uploads is compressed already, or is weights.
  std::span<const std::uint8_t> body;
  XorbMemory::Piece memory;  ///< where the body is
};

/// Makes a xorb, chunk by chunk.
class XorbBuilder {
 public:
  /// `limit_bytes` is at most k_largest_xorb_bytes, and enough for a longest chunk.
  explicit XorbBuilder(std::size_t limit_bytes = k_largest_xorb_bytes)
      : limit_bytes_(limit_bytes), memory_(limit_bytes) {}

  bool is_empty() const { return xorb_.chunks.empty(); }
  std::size_t chunk_count() const { return xorb_.chunks.size(); }
  bool has_room(const XetChunk& chunk) const;
  /// There must be room.
  void add(const XetChunk& chunk);
  /// The finished xorb; the builder begins a new one.
  Xorb take();

 private:
  std::size_t limit_bytes_;
  XorbMemory memory_;
  Xorb xorb_;
  std::span<std::uint8_t> room_;
  std::size_t body_bytes_ = 0;
  XetTree tree_;
};

/// Reads a xorb's body, with or without a footer: its chunks, in order, their hashes made from their bytes. They point
/// into `body`. Throws corrupt, or unsupported for compressed chunks, with `name` as the object.
std::vector<XetChunk> read_xorb(std::span<const std::uint8_t> body, const std::string& name);

}  // namespace wdelta
