// SPDX-License-Identifier: Apache-2.0
// How a tensor is cut into blocks.
#pragma once

#include "checkpoint/safetensors.hpp"
#include "engine/element.hpp"

#include <cstdint>

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

}  // namespace wdelta
