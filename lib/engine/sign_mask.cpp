// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace wdelta {
namespace {

// At least 56 bits from `column` on; zeros behind the last.
std::uint64_t columns_from(const std::vector<std::uint8_t>& columns, std::uint64_t column) {
  if (columns.empty()) return 0;
  const std::size_t first = column / 8;
  std::uint64_t word = 0;
  if (first + sizeof(word) <= columns.size()) {
    std::memcpy(&word, columns.data() + first, sizeof(word));
  } else {
    for (std::size_t k = 0; first + k < columns.size(); ++k) word |= std::uint64_t{columns[first + k]} << (8 * k);
  }
  return word >> (column % 8);
}

}  // namespace

void expand_sign_mask(const SignMask& mask, const MatrixPlace& place, std::uint64_t first, std::uint32_t count,
                      std::span<std::uint64_t> flips) {
  std::ranges::fill(flips.first((count + 63) / 64), 0);
  if (mask.is_empty()) return;
  const std::uint64_t first_row = place.first_element / place.row_elements;
  std::uint64_t at = place.first_element + first;
  std::uint64_t row = at / place.row_elements;
  std::uint64_t column = at % place.row_elements;
  for (std::uint64_t i = 0; i < count;) {
    const std::uint64_t row_flip = std::uint64_t{0} - mask_bit(mask.rows, row - first_row);
    const std::uint64_t in_row = std::min(place.row_elements - column, count - i);
    std::uint64_t taken = in_row / 64 * 64;
    if (i % 64 == 0 && column % 8 == 0 && taken != 0) {
      std::uint64_t* const words = flips.data() + i / 64;
      if (!mask.columns.empty()) std::memcpy(words, mask.columns.data() + column / 8, taken / 8);
      for (std::uint64_t k = 0; k < taken / 64; ++k) words[k] ^= row_flip;
    } else {
      taken = std::min<std::uint64_t>({in_row, 64 - i % 64, 56});
      const std::uint64_t word = columns_from(mask.columns, column) ^ row_flip;
      flips[i / 64] |= (word & ((std::uint64_t{1} << taken) - 1)) << (i % 64);
    }
    i += taken;
    column += taken;
    if (column == place.row_elements) {
      column = 0;
      ++row;
    }
  }
}

}  // namespace wdelta
