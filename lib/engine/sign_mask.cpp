// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask.hpp"

#include "engine/symbol_table.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>

namespace wdelta {
namespace {

// Rows and columns are fitted in turn, each to the other: the best approximation of the signs by one row times one
// column is a power iteration. Each turn is a pass over the changes; what a further one gains falls off quickly.
constexpr int k_most_turns = 6;
// What does not pay by then will not.
constexpr int k_telling_turns = 2;

/// n log2 n, in 1/65536 of a bit.
std::uint64_t weight(std::uint64_t n) { return n * log2_fixed(n); }

std::uint64_t cost_of_signs(std::uint64_t agreeing, std::uint64_t all) {
  return weight(all) - weight(agreeing) - weight(all - agreeing);
}

std::vector<std::uint8_t> packed(std::span<const std::int32_t> sums) {
  std::vector<std::uint8_t> bits((sums.size() + 7) / 8);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | (sums[i] < 0 ? 1 : 0) << (i % 8));
  }
  return bits;
}

/// How many changes agree with the majority of their line.
std::uint64_t agreeing(std::span<const std::int32_t> sums, std::size_t change_count) {
  std::uint64_t margin = 0;
  for (const std::int32_t sum : sums) margin += static_cast<std::uint64_t>(std::abs(sum));
  return (change_count + margin) / 2;
}

/// Sums up, for each line of one direction, the signs as the lines of the other direction see them.
template <class Index, class Other>
void sum_up(const std::vector<Index>& line, const std::vector<Other>& other, std::span<const std::int32_t> other_sums,
            std::span<const std::int8_t> signs, std::span<std::int32_t> sums) {
  std::ranges::fill(sums, 0);
  for (std::size_t i = 0; i < signs.size(); ++i) {
    const std::int32_t flip = other_sums[other[i]] >> 31;
    sums[line[i]] += (signs[i] ^ flip) - flip;
  }
}

std::uint32_t bit_of(const std::vector<std::uint8_t>& bits, std::uint64_t at) {
  return bits.empty() ? 0 : (bits[at / 8] >> (at % 8)) & 1U;
}

}  // namespace

void SignMaskChooser::find_lines(std::span<const SignedChange> changes, const MatrixPlace& place) {
  const std::uint64_t first_column = place.first_element % place.row_elements;
  // Division by multiplication, exact: an element and its first column are below 2^23 and a row is at most 2^16 long,
  // so that what rounding the factor up adds to the product is less than 2^40, and the product less than 2^63.
  const std::uint64_t factor = ((std::uint64_t{1} << 40) + place.row_elements - 1) / place.row_elements;
  if (sign_.size() < changes.size()) {
    row_.resize(changes.size());
    column_.resize(changes.size());
    sign_.resize(changes.size());
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::uint64_t at = first_column + changes[i].element();
    const std::uint64_t row = (at * factor) >> 40;
    row_[i] = static_cast<std::uint32_t>(row);
    column_[i] = static_cast<std::uint16_t>(at - row * place.row_elements);
    sign_[i] = static_cast<std::int8_t>(1 - 2 * static_cast<int>(changes[i].negative()));
  }
}

SignMask SignMaskChooser::choose(std::span<SignedChange> changes, const MatrixPlace& place,
                                 std::uint64_t element_count) {
  SignMask mask;
  // A mask saves less than a bit per change and costs a bit per column.
  if (!place.has_rows() || changes.size() <= place.row_elements) return mask;
  find_lines(changes, place);
  const std::uint64_t all = changes.size();
  const std::span<const std::int8_t> signs = std::span(sign_).first(all);
  const std::uint64_t row_count = place.row_count(element_count);
  row_sums_.assign(row_count, 0);
  column_sums_.resize(place.row_elements);

  sum_up(column_, row_, row_sums_, signs, column_sums_);
  const std::uint64_t columns_cost = cost_of_signs(agreeing(column_sums_, all), all) + (place.row_elements << 16);
  std::uint64_t least = all << 16;
  if (columns_cost < least) {
    least = columns_cost;
    mask.columns = packed(column_sums_);
  }
  std::uint64_t before = ~std::uint64_t{0};
  for (int turn = 0; turn < k_most_turns; ++turn) {
    if (turn == k_telling_turns && mask.is_empty()) break;
    sum_up(row_, column_, column_sums_, signs, row_sums_);
    sum_up(column_, row_, row_sums_, signs, column_sums_);
    const std::uint64_t cost =
        cost_of_signs(agreeing(column_sums_, all), all) + ((place.row_elements + row_count) << 16);
    if (cost < least) {
      least = cost;
      mask.columns = packed(column_sums_);
      mask.rows = packed(row_sums_);
    }
    if (before - cost < before / 256 || cost > before) break;
    before = cost;
  }
  if (mask.is_empty()) return mask;
  for (std::size_t i = 0; i < all; ++i) {
    changes[i].turn(bit_of(mask.columns, column_[i]) ^ bit_of(mask.rows, row_[i]));
  }
  return mask;
}

void expand_sign_mask(const SignMask& mask, const MatrixPlace& place, std::uint64_t first, std::uint32_t count,
                      std::span<std::uint64_t> flips) {
  std::ranges::fill(flips.first((count + 63) / 64), 0);
  if (mask.is_empty()) return;
  const std::uint64_t first_row = place.first_element / place.row_elements;
  std::uint64_t at = place.first_element + first;
  std::uint64_t row = at / place.row_elements;
  std::uint64_t column = at % place.row_elements;
  for (std::uint32_t i = 0; i < count;) {
    // As many at once as stay in one row, one word of flips and what eight bytes of columns hold.
    const std::uint64_t row_flip = std::uint64_t{0} - bit_of(mask.rows, row - first_row);
    const std::uint64_t in_row = std::min<std::uint64_t>(place.row_elements - column, count - i);
    const std::uint64_t taken = std::min<std::uint64_t>({in_row, 64 - i % 64, 56});
    std::uint64_t word = 0;
    if (!mask.columns.empty()) {
      for (std::size_t k = 0; k < 8 && column / 8 + k < mask.columns.size(); ++k) {
        word |= std::uint64_t{mask.columns[column / 8 + k]} << (8 * k);
      }
      word >>= column % 8;
    }
    word = (word ^ row_flip) & ((std::uint64_t{1} << taken) - 1);
    flips[i / 64] |= word << (i % 64);
    i += static_cast<std::uint32_t>(taken);
    column += taken;
    if (column == place.row_elements) {
      column = 0;
      ++row;
    }
  }
}

}  // namespace wdelta
