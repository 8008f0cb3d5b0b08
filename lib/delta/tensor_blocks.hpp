// SPDX-License-Identifier: Apache-2.0
// How a tensor is cut into blocks.
#pragma once

#include "checkpoint/safetensors.hpp"
#include "engine/element.hpp"
#include "engine/sign_mask.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace wdelta {

inline ElementType element_type(const Tensor& tensor) {
  return {tensor.dtype->width_bytes, tensor.dtype->floating ? ElementKind::floating : ElementKind::integer};
}

/// Bytes of every block of the tensor but the last.
inline std::uint64_t block_bytes(const Tensor& tensor) {
  return std::uint64_t{k_block_elements} * tensor.dtype->width_bytes;
}

inline std::uint64_t block_count(const Tensor& tensor) {
  return (tensor.size_bytes() + block_bytes(tensor) - 1) / block_bytes(tensor);
}

/// Where the last block that begins before `offset` ends, were it whole.
inline std::uint64_t end_of_blocks_before(const Tensor& tensor, std::uint64_t offset) {
  const std::uint64_t block = block_bytes(tensor);
  return tensor.begin + (offset - tensor.begin + block - 1) / block * block;
}

/// Goes through the blocks that begin in a range of a file, in the order of their bytes.
class BlockWalk {
 public:
  /// `header` must outlive it.
  BlockWalk(const SafetensorsHeader& header, std::uint64_t from, std::uint64_t to)
      : tensors_(header.tensors()), end_(to) {
    const auto first = std::ranges::upper_bound(tensors_, from, {}, &Tensor::end);
    tensor_ = static_cast<std::size_t>(first - tensors_.begin());
    if (tensor_ == tensors_.size()) return;
    const Tensor& tensor = tensors_[tensor_];
    const std::uint64_t block = block_bytes(tensor);
    begin_ = tensor.begin;
    if (begin_ < from) begin_ += (from - begin_ + block - 1) / block * block;
    skip_finished_tensors();
  }

  /// Whether there is none left; else the others say what the block is.
  bool done() const { return tensor_ == tensors_.size() || begin_ >= end_; }
  std::size_t tensor() const { return tensor_; }
  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return std::min(begin_ + block_bytes(tensors_[tensor_]), tensors_[tensor_].end); }

  void advance() {
    begin_ = end();
    skip_finished_tensors();
  }

 private:
  void skip_finished_tensors() {
    while (tensor_ < tensors_.size() && begin_ >= tensors_[tensor_].end) {
      if (++tensor_ < tensors_.size()) begin_ = tensors_[tensor_].begin;
    }
  }

  std::span<const Tensor> tensors_;
  std::uint64_t end_;
  std::size_t tensor_ = 0;
  std::uint64_t begin_ = 0;
};

/// The last offset up to `offset` at which no block is cut in two.
inline std::uint64_t block_boundary_before(const SafetensorsHeader& header, std::uint64_t offset) {
  const auto tensors = header.tensors();
  const auto tensor = std::ranges::upper_bound(tensors, offset, {}, &Tensor::end);
  if (tensor == tensors.end() || tensor->begin >= offset) return offset;
  return offset - (offset - tensor->begin) % block_bytes(*tensor);
}

/// How long the rows of the tensor are, if it is a matrix (or a stack of them), else 0.
inline std::uint64_t row_elements(const Tensor& tensor) { return tensor.shape.size() < 2 ? 0 : tensor.shape.back(); }

}  // namespace wdelta
