// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace wdelta {

/// What a dtype of safetensors means for comparing bits; wdelta-delta(5), "Elements".
struct Dtype {
  std::string_view name;
  std::uint8_t bits;         ///< of one number; 4, 6, 8, 16, 32 or 64
  std::uint8_t width_bytes;  ///< of one element as it is compared: 1, 2, 4 or 8; narrower dtypes are compared as bytes
  bool floating;             ///< sign and magnitude rather than two's complement
};

/// The dtype of that name, or null when safetensors has none.
const Dtype* dtype_named(std::string_view name);

/// What a tensor of that shape takes; nothing where it is more than 2^64 - 1. As in the reference implementation, which
/// multiplies extents in their order and refuses what passes 2^64 on the way: an extent of 0 helps those behind it, and
/// none before it.
std::optional<std::uint64_t> bits_of(const Dtype& dtype, std::span<const std::uint64_t> shape);

}  // namespace wdelta
