// SPDX-License-Identifier: Apache-2.0
// SignKernels::weigh_columns(); for kernel files alone, each of which gets a copy of its own, made of vectors as it has
// them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

/// Calls store(where to, the weight of a column) for each, which stores it and behind it the same with the other sign.
template <class Store>
void weigh_columns(const std::int32_t* __restrict signed_sums, const std::int32_t* counts, std::uint32_t columns,
                   std::int32_t* __restrict sums, std::int8_t* __restrict weights, Store store) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < columns; ++i) {
    const std::int32_t own = (counts[2 * i] + counts[2 * i + 1]) * weights[2 * i];
    sums[i] = signed_sums[2 * i] - signed_sums[2 * i + 1] - own;
    bits |= static_cast<std::uint32_t>(sums[i] < 0 ? -sums[i] : sums[i]);
  }
  const int width = bits == 0 ? 0 : 32 - __builtin_clz(bits);
  const int shift = width < 7 ? 0 : width - 7;
  // Towards 0: what is hardly sure says nothing.
  const std::int32_t up = (std::int32_t{1} << shift) - 1;
  for (std::uint32_t i = 0; i < columns; ++i) {
    store(weights + std::size_t{2} * i, (sums[i] + ((sums[i] >> 31) & up)) >> shift);
  }
}

}  // namespace
}  // namespace wdelta
