// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// A hash of the Xet protocol: 32 bytes. Not a Digest, because it is made with other keys and written differently, so
/// that taking one for the other must not compile.
struct XetHash {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const XetHash&) const = default;
  /// Four little-endian numbers of 64 bits, each as 16 hex digits: the form in URLs and JSON.
  std::string text() const;
  /// Exactly 64 lower-case hex digits, or nothing.
  static std::optional<XetHash> parse(std::string_view text);
};

/// The hash of one chunk's bytes.
XetHash xet_chunk_hash(std::span<const std::uint8_t> bytes);

/// The root over the chunks of a xorb or a file, which come one by one. Zero for none, a chunk's own hash for one.
///
/// Where a group of nodes ends depends on nine nodes at most, so no level of the tree keeps more than that: the chunks
/// of a file of any size are never all in memory.
class XetTree {
 public:
  void add(const XetHash& hash, std::uint64_t size_bytes);
  XetHash root() const;
  /// The hash of the file that all chunks make; that of an empty file is zero.
  XetHash file_hash() const;

 private:
  struct Node {
    XetHash hash;
    std::uint64_t size_bytes = 0;
  };
  using Level = std::vector<Node>;

  static std::size_t group_size(std::span<const Node> nodes);
  static Node joined(std::span<const Node> nodes);
  void add(std::size_t level, const Node& node);

  std::vector<Level> levels_;  // what is not joined yet, the chunks first
};

/// Proves in a shard that who names a stretch of chunks knew their hashes.
class XetVerification {
 public:
  void add(const XetHash& chunk) { hasher_.update(chunk.bytes); }
  XetHash finish() const { return {hasher_.finish().bytes}; }

 private:
  static Blake3 start();

  Blake3 hasher_ = start();
};

}  // namespace wdelta
