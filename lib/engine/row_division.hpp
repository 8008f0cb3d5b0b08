// SPDX-License-Identifier: Apache-2.0
// Which row an element is in, by multiplication; for kernel files alone.
#pragma once

#include <cstdint>

namespace wdelta {
namespace {

/// An element times `factor`, shifted right by `shift`, is its row. Exact: an element is below 2^23, and what rounding
/// the factor up adds to the product is less than 2^23 times the length of a row, and so less than 2^shift. A factor is
/// at most 2^24 + 1.
struct RowDivision {
  explicit RowDivision(std::uint32_t row_elements)
      : shift(23 + 32 - static_cast<unsigned>(__builtin_clz(row_elements - 1))),
        factor(static_cast<std::uint32_t>(((std::uint64_t{1} << shift) + row_elements - 1) / row_elements)) {}

  unsigned shift;
  std::uint32_t factor;
};

}  // namespace
}  // namespace wdelta
