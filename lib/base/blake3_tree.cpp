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

std::size_t segments_in(std::uint64_t size_bytes, std::size_t segment_bytes) {
  const std::uint64_t whole = size_bytes / segment_bytes;
  const std::uint64_t rest = size_bytes % segment_bytes;
  return std::max<std::uint64_t>(1, whole + (rest != 0 ? 1 : 0));
}

}  // namespace

Blake3Tree::Blake3Tree(std::uint64_t size_bytes, const Blake3Kernel& kernel) : Blake3Tree(size_bytes, Cut{}, kernel) {}

Blake3Tree::Blake3Tree(std::uint64_t size_bytes, Cut cut, const Blake3Kernel& kernel)
    : kernel_(&kernel),
      size_bytes_(size_bytes),
      segment_bytes_(cut.segment_bytes),
      values_(segments_in(size_bytes, cut.segment_bytes)) {}

std::size_t Blake3Tree::segment_count() const { return values_.size(); }

std::array<std::uint32_t, 8> Blake3Tree::value_of(std::size_t index, std::span<const std::uint8_t> bytes) const {
  const std::uint64_t offset = std::uint64_t{index} * segment_bytes_;
  if (index >= values_.size() || bytes.size() != std::min<std::uint64_t>(segment_bytes_, size_bytes_ - offset)) {
    throw Error(Fault::internal, "segment " + std::to_string(index),
                "has " + std::to_string(bytes.size()) + " bytes, of a stream of " + std::to_string(size_bytes_));
  }
  const std::size_t segment_chunks = segment_bytes_ / k_blake3_chunk_bytes;
  const std::uint64_t first_chunk = std::uint64_t{index} * segment_chunks;
  if (values_.size() > 1 && bytes.size() == segment_bytes_)
    return blake3_subtree(*kernel_, k_key, 0, bytes.data(), segment_chunks, first_chunk);
  // Such a subtree is not whole, or it holds the root.
  Blake3 hasher(*kernel_, k_key, 0, first_chunk);
  hasher.update(bytes);
  const Blake3::Node node = hasher.last_node();
  return values_.size() > 1 ? node.value() : node.root_value();
}

void Blake3Tree::set_segment(std::size_t index, std::span<const std::uint8_t> bytes) {
  const auto value = value_of(index, bytes);
  values_[index] = value;
}

bool Blake3Tree::is_segment(std::size_t index, std::span<const std::uint8_t> bytes) const {
  return value_of(index, bytes) == values_[index];
}

Digest Blake3Tree::segment_value(std::size_t index) const { return blake3_digest(values_.at(index)); }

Digest Blake3Tree::finish() const {
  if (values_.size() == 1) return blake3_digest(values_.front());
  auto values = values_;
  return blake3_digest(Blake3::Node::join(*kernel_, values, k_key, 0).root_value());
}

}  // namespace wdelta
