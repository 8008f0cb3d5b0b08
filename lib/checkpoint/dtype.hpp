// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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

}  // namespace wdelta
