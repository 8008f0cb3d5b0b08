// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/blake3_kernel.hpp"
#include "base/blake3_node.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace wdelta {

namespace {

constexpr auto k_key = std::to_array(k_blake3_iv);
static_assert(Blake3Segment::k_unit_bytes == k_blake3_chunk_bytes);

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

bool Blake3Tree::is_subtree(std::size_t index) const {
  return values_.size() > 1 && index < values_.size() && (std::uint64_t{index} + 1) * segment_bytes_ <= size_bytes_;
}

void Blake3Tree::set_subtree(std::size_t index, const std::array<std::uint32_t, 8>& value) {
  if (!is_subtree(index)) throw Error(Fault::internal, "segment " + std::to_string(index), "is no whole subtree");
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

Blake3Segment::Blake3Segment(Blake3Tree& tree, std::size_t index) : tree_(&tree), index_(index) {
  if (index >= tree.values_.size() || tree.segment_bytes_ != Blake3Tree::k_segment_bytes) refuse(0);
  const std::uint64_t begin = std::uint64_t{index} * Blake3Tree::k_segment_bytes;
  size_bytes_ = std::min<std::uint64_t>(Blake3Tree::k_segment_bytes, tree.size_bytes_ - begin);
  // Else it is no whole subtree, or it holds the root.
  const bool whole = tree.values_.size() > 1 && size_bytes_ == Blake3Tree::k_segment_bytes;
  if (!whole) rest_ = Blake3(*tree.kernel_, k_key, 0, first_chunk());
  if (size_bytes_ == 0) finish();
}

void Blake3Segment::require_next(std::size_t size_bytes) const {
  const std::size_t left = size_bytes_ - done_bytes_;
  if (size_bytes > left || (size_bytes < left && size_bytes % k_unit_bytes != 0)) refuse(size_bytes);
}

void Blake3Segment::update(std::span<const std::uint8_t> bytes) {
  require_next(bytes.size());
  if (bytes.empty()) return;
  if (rest_) {
    rest_->update(bytes);
    done_bytes_ += bytes.size();
  } else {
    while (!bytes.empty()) bytes = bytes.subspan(hash_chunks(bytes));
  }
  if (done_bytes_ == size_bytes_) finish();
}

void Blake3Segment::copy_and_update(const std::uint8_t* from, std::span<std::uint8_t> copy) {
  require_next(copy.size());
  if (copy.size() > k_group_bytes) refuse(copy.size());
  if (rest_) {
    std::memcpy(copy.data(), from, copy.size());
    return update(copy);
  }
  hash_group(copy.size(), [&](std::uint64_t first, std::uint32_t* values) {
    blake3_copied_chunks(*tree_->kernel_, k_key, 0, from, first, copy, values);
  });
  if (done_bytes_ == size_bytes_) finish();
}

void Blake3Segment::update_in_place(std::span<const std::uint8_t> bytes) {
  require_next(bytes.size());
  if (rest_ || bytes.size() > k_group_bytes) refuse(bytes.size());
  hash_chunks(bytes);
  if (done_bytes_ == size_bytes_) finish();
}

// Of the first so many bytes, at most as many chunks as make a group; returns how many bytes these are.
std::size_t Blake3Segment::hash_chunks(std::span<const std::uint8_t> bytes) {
  const auto some = bytes.first(std::min(bytes.size(), k_group_bytes));
  hash_group(some.size(), [&](std::uint64_t first, std::uint32_t* values) {
    tree_->kernel_->hash_chunks(some.data(), some.size() / k_blake3_chunk_bytes, k_key.data(), first, 0, values);
  });
  return some.size();
}

// Groups are reduced once they are whole; the kernels hash what begins one and ends the other at once, at their full
// width.
template <typename Hash>
void Blake3Segment::hash_group(std::size_t size_bytes, Hash hash) {
  static_assert(k_group_bytes == k_blake3_group_chunks * k_blake3_chunk_bytes);
  const std::size_t done_chunks = done_bytes_ / k_blake3_chunk_bytes;
  const std::size_t in_group = done_chunks % k_blake3_group_chunks;
  hash(first_chunk() + done_chunks, group_.data() + 8 * in_group);
  done_bytes_ += size_bytes;
  const std::size_t held = in_group + size_bytes / k_blake3_chunk_bytes;
  if (held < k_blake3_group_chunks) return;
  const std::size_t group = done_chunks / k_blake3_group_chunks;
  blake3_group_reduced(*tree_->kernel_, k_key, 0, group_.data(), k_blake3_group_chunks,
                       values_.data() + 8 * k_blake3_group_values * group);
  std::copy_n(group_.data() + 8 * k_blake3_group_chunks, 8 * (held - k_blake3_group_chunks), group_.data());
}

std::uint64_t Blake3Segment::first_chunk() const { return std::uint64_t{index_} * k_blake3_subtree_chunks; }

void Blake3Segment::finish() {
  std::array<std::uint32_t, 8>& value = tree_->values_[index_];
  if (!rest_) {
    value = blake3_reduced(*tree_->kernel_, k_key, 0, values_.data(), values_.size() / 8);
    return;
  }
  const Blake3::Node node = rest_->last_node();
  value = tree_->values_.size() > 1 ? node.value() : node.root_value();
}

void Blake3Segment::refuse(std::size_t size_bytes) const {
  throw Error(
      Fault::internal, "segment " + std::to_string(index_),
      "is given " + std::to_string(size_bytes) + " bytes, of a stream of " + std::to_string(tree_->size_bytes_));
}

}  // namespace wdelta
