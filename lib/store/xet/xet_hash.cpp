// SPDX-License-Identifier: Apache-2.0
#include "store/xet/xet_hash.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr Blake3Key k_chunk_key = {102, 151, 245, 119, 91,  149, 80, 222, 49,  53,  203, 172, 165, 151, 24,  28,
                                   157, 228, 33,  16,  155, 235, 43, 88,  180, 208, 176, 75,  147, 173, 242, 41};
constexpr Blake3Key k_node_key = {1,  126, 197, 199, 165, 71,  41,  150, 253, 148, 102, 102, 180, 138, 2,   230,
                                  93, 221, 83,  111, 55,  199, 109, 210, 248, 99,  82,  230, 74,  83,  113, 63};
constexpr Blake3Key k_verification_key = {127, 24,  87, 214, 206, 86,  237, 102, 18, 127, 249, 19,  231, 165, 195, 243,
                                          164, 205, 38, 213, 181, 219, 73,  230, 65, 36,  152, 127, 40,  251, 148, 195};
constexpr Blake3Key k_file_key = {};

constexpr std::size_t k_longest_group = 9;

XetHash keyed_hash(const Blake3Key& key, std::span<const std::uint8_t> bytes) {
  Blake3 hasher = Blake3::keyed(key);
  hasher.update(bytes);
  return {hasher.finish().bytes};
}

// The text writes each 8 bytes as a little-endian number, so the bytes of each run backwards.
constexpr std::size_t place_in_text(std::size_t byte) { return byte / 8 * 8 + (7 - byte % 8); }

}  // namespace

std::string XetHash::text() const {
  Digest turned;
  for (std::size_t i = 0; i < bytes.size(); ++i) turned.bytes[place_in_text(i)] = bytes[i];
  return turned.hex();
}

std::optional<XetHash> XetHash::parse(std::string_view text) {
  const std::optional<Digest> turned = Digest::parse(text);
  if (!turned) return std::nullopt;
  XetHash hash;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) hash.bytes[i] = turned->bytes[place_in_text(i)];
  return hash;
}

XetHash xet_chunk_hash(std::span<const std::uint8_t> bytes) { return keyed_hash(k_chunk_key, bytes); }

Blake3 XetVerification::start() { return Blake3::keyed(k_verification_key); }

void XetTree::add(const XetHash& hash, std::uint64_t size_bytes) { add(0, {hash, size_bytes}); }

void XetTree::add(std::size_t level, const Node& node) {
  if (level == levels_.size()) levels_.emplace_back();
  levels_[level].push_back(node);
  // As many as a group can hold: then it ends where it would with any number of nodes to come.
  if (levels_[level].size() < k_longest_group) return;
  const std::size_t size = group_size(levels_[level]);
  const Node parent = joined(std::span(levels_[level]).first(size));
  levels_[level].erase(levels_[level].begin(), levels_[level].begin() + static_cast<std::ptrdiff_t>(size));
  add(level + 1, parent);
}

// Joins what is left, level by level, until one node is the only one of its level.
XetHash XetTree::root() const {
  Level nodes;
  for (std::size_t level = 0;; ++level) {
    if (level < levels_.size()) nodes.insert(nodes.begin(), levels_[level].begin(), levels_[level].end());
    const bool is_last = level + 1 >= levels_.size();
    if (is_last && nodes.size() <= 1) return nodes.empty() ? XetHash{} : nodes.front().hash;
    Level parents;
    for (std::span<const Node> rest = nodes; !rest.empty();) {
      const std::size_t size = group_size(rest);
      parents.push_back(joined(rest.first(size)));
      rest = rest.subspan(size);
    }
    nodes = std::move(parents);
  }
}

XetHash XetTree::file_hash() const { return levels_.empty() ? XetHash{} : keyed_hash(k_file_key, root().bytes); }

// A group ends behind the third or a later node whose hash, as a number, is divisible by four.
std::size_t XetTree::group_size(std::span<const Node> nodes) {
  const std::size_t longest = std::min(k_longest_group, nodes.size());
  for (std::size_t i = 2; i < longest; ++i) {
    if (nodes[i].hash.bytes[24] % 4 == 0) return i + 1;
  }
  return longest;
}

XetTree::Node XetTree::joined(std::span<const Node> nodes) {
  std::string text;
  std::uint64_t size_bytes = 0;
  for (const Node& node : nodes) {
    text += fmt::format("{} : {}\n", node.hash.text(), node.size_bytes);
    size_bytes += node.size_bytes;
  }
  return {keyed_hash(k_node_key, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}), size_bytes};
}

}  // namespace wdelta
