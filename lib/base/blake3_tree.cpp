// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/blake3_kernel.hpp"
#include "base/blake3_node.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <string>

namespace wdelta {

namespace {

constexpr auto k_key = std::to_array(k_blake3_iv);

std::size_t segments_in(std::uint64_t size_bytes) {
  const std::uint64_t whole = size_bytes / Blake3Tree::k_segment_bytes;
  const std::uint64_t rest = size_bytes % Blake3Tree::k_segment_bytes;
  return std::max<std::uint64_t>(1, whole + (rest != 0 ? 1 : 0));
}

}  // namespace

Blake3Tree::Blake3Tree(std::uint64_t size_bytes, const Blake3Kernel& kernel)
    : kernel_(&kernel), size_bytes_(size_bytes), values_(segments_in(size_bytes)) {}

std::size_t Blake3Tree::segment_count() const { return values_.size(); }

void Blake3Tree::set_segment(std::size_t index, std::span<const std::uint8_t> bytes) {
  const std::uint64_t offset = std::uint64_t{index} * k_segment_bytes;
  if (index >= values_.size() || bytes.size() != std::min<std::uint64_t>(k_segment_bytes, size_bytes_ - offset)) {
    throw Error(Fault::internal, "segment " + std::to_string(index),
                "has " + std::to_string(bytes.size()) + " bytes, of a stream of " + std::to_string(size_bytes_));
  }
  const std::uint64_t first_chunk = std::uint64_t{index} * k_blake3_subtree_chunks;
  if (values_.size() > 1 && bytes.size() == k_segment_bytes) {
    values_[index] = blake3_subtree(*kernel_, k_key, 0, bytes.data(), k_blake3_subtree_chunks, first_chunk);
    return;
  }
  // Such a subtree is not whole, or it holds the root.
  Blake3 hasher(*kernel_, k_key, 0, first_chunk);
  hasher.update(bytes);
  const Blake3::Node node = hasher.last_node();
  values_[index] = values_.size() > 1 ? node.value() : node.root_value();
}

Digest Blake3Tree::finish() const {
  if (values_.size() == 1) return blake3_digest(values_.front());
  auto values = values_;
  return blake3_digest(Blake3::Node::join(*kernel_, values, k_key, 0).root_value());
}

}  // namespace wdelta
