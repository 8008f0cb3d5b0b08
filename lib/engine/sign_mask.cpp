// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask.hpp"

#include "engine/symbol_table.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace wdelta {
namespace {

// Rows and columns are fitted in turn, each to the other: the best approximation of the signs by one row times one
// column is a power iteration. In the first turn lines count as much as they are sure of themselves, which finds in two
// turns what takes six or more where they only say yes or no. What further ones gain falls off quickly.
constexpr int k_most_turns = 3;
// What costs this part more than no mask when lines first say yes or no does not pay later.
constexpr std::uint64_t k_hopeless_part = 64;

/// n log2 n, in 1/65536 of a bit.
std::uint64_t weight(std::uint64_t n) { return n * log2_fixed(n); }

std::uint64_t cost_of_signs(std::uint64_t agreeing, std::uint64_t all) {
  return weight(all) - weight(agreeing) - weight(all - agreeing);
}

std::uint64_t bits_set(std::span<const std::uint8_t> bytes) {
  std::uint64_t count = 0;
  for (const std::uint8_t byte : bytes) count += static_cast<std::uint64_t>(std::popcount(byte));
  return count;
}

std::uint32_t bit_of(const std::vector<std::uint8_t>& bits, std::uint64_t at) {
  return bits.empty() ? 0 : (bits[at / 8] >> (at % 8)) & 1U;
}

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

void SignMaskChooser::find_rows(std::span<const SignedChange> changes, const MatrixPlace& place) {
  const std::uint64_t first_column = place.first_element % place.row_elements;
  // Division by multiplication, exact: an element and its first column are below 2^23 and a row is at most 2^16 long,
  // so that what rounding the factor up adds to the product is less than 2^40, and the product less than 2^63.
  const std::uint64_t factor = ((std::uint64_t{1} << 40) + place.row_elements - 1) / place.row_elements;
  in_column_.resize(changes.size());
  rows_.clear();
  std::uint64_t row_begin = 0;
  std::uint64_t row_end = 0;
  for (std::uint32_t i = 0; i < changes.size(); ++i) {
    const std::uint64_t at = first_column + changes[i].element();
    if (at >= row_end) {
      const std::uint64_t row = (at * factor) >> 40;
      row_begin = row * place.row_elements;
      row_end = row_begin + place.row_elements;
      rows_.push_back({static_cast<std::uint32_t>(row), i, 0});
    }
    in_column_[i] = SignedChange(static_cast<std::uint32_t>(at - row_begin), changes[i].negative());
  }
  rows_.push_back({0, static_cast<std::uint32_t>(changes.size()), 0});
}

// Rows as they are.
void SignMaskChooser::fit_columns(std::uint64_t column_count) {
  column_changes_.assign(column_count, 0);
  column_negatives_.assign(column_count, 0);
  column_sums_.resize(column_count);
  column_weights_.resize(column_count);
  for (const SignedChange change : in_column_) {
    ++column_changes_[change.element()];
    column_negatives_[change.element()] += change.negative();
  }
  for (std::size_t i = 0; i < column_count; ++i) {
    column_sums_[i] = std::int64_t{column_changes_[i]} - 2 * std::int64_t{column_negatives_[i]};
  }
  agreeing_ = agreeing();
}

// How sure each column is, in less than 2^8: a row's sum is then less than 2^24, and what that adds up to in a column
// less than 2^47.
void SignMaskChooser::weigh_columns() {
  std::uint64_t bits = 0;
  for (const std::int64_t sum : column_sums_) bits |= static_cast<std::uint64_t>(std::abs(sum));
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - 8);
  // Towards 0: what is hardly sure says nothing.
  const std::int64_t up = (std::int64_t{1} << shift) - 1;
  for (std::size_t i = 0; i < column_sums_.size(); ++i) {
    column_weights_[i] = static_cast<std::int32_t>((column_sums_[i] + ((column_sums_[i] >> 63) & up)) >> shift);
  }
}

// Calls visit(changes, sum) for each row: the sum of its signs as the columns see them. Row by row, while its changes
// are in cache.
template <class Visit>
void SignMaskChooser::each_row(Visit visit) {
  const std::int32_t* const weights = column_weights_.data();
  for (std::size_t i = 0; i + 1 < rows_.size(); ++i) {
    const std::span<const SignedChange> changes =
        std::span(in_column_).subspan(rows_[i].first, rows_[i + 1].first - rows_[i].first);
    std::int32_t sum = 0;
    for (const SignedChange change : changes) sum += change.sign() * weights[change.element()];
    visit(rows_[i], changes, sum);
  }
}

// Rows to the columns, and columns to the rows.
void SignMaskChooser::weigh_rows_and_columns() {
  std::ranges::fill(column_sums_, 0);
  std::int64_t* const sums = column_sums_.data();
  each_row([sums](Row&, std::span<const SignedChange> changes, std::int32_t row_sum) {
    for (const SignedChange change : changes) sums[change.element()] += std::int64_t{change.sign()} * row_sum;
  });
  weigh_columns();
}

// The same, where lines only say yes or no.
void SignMaskChooser::fit_rows_and_columns() {
  std::ranges::fill(column_negatives_, 0);
  std::uint32_t* const negatives = column_negatives_.data();
  each_row([negatives](Row& row, std::span<const SignedChange> changes, std::int32_t sum) {
    row.is_turned = sum < 0 ? 1 : 0;
    for (const SignedChange change : changes) negatives[change.element()] += change.negative() ^ row.is_turned;
  });
  for (std::size_t i = 0; i < column_weights_.size(); ++i) {
    column_weights_[i] = 2 * negatives[i] > column_changes_[i] ? -1 : 1;
  }
  agreeing_ = agreeing();
}

void SignMaskChooser::fit_rows() {
  std::ranges::fill(column_weights_, 1);
  agreeing_ = 0;
  each_row([this](Row& row, std::span<const SignedChange> changes, std::int32_t sum) {
    row.is_turned = sum < 0 ? 1 : 0;
    agreeing_ += (changes.size() + static_cast<std::uint64_t>(std::abs(sum))) / 2;
  });
}

std::uint64_t SignMaskChooser::agreeing() const {
  std::uint32_t agreeing = 0;
  for (std::size_t i = 0; i < column_changes_.size(); ++i) {
    agreeing += std::max(column_negatives_[i], column_changes_[i] - column_negatives_[i]);
  }
  return agreeing;
}

std::vector<std::uint8_t> SignMaskChooser::packed_columns() const {
  std::vector<std::uint8_t> bits((column_changes_.size() + 7) / 8);
  for (std::size_t i = 0; i < column_changes_.size(); ++i) {
    const std::uint32_t is_turned = 2 * column_negatives_[i] > column_changes_[i] ? 1 : 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | is_turned << (i % 8));
  }
  return bits;
}

std::vector<std::uint8_t> SignMaskChooser::packed_rows(std::uint64_t row_count) const {
  std::vector<std::uint8_t> bits((row_count + 7) / 8);
  for (std::size_t i = 0; i + 1 < rows_.size(); ++i) {
    std::uint8_t& byte = bits[rows_[i].row / 8];
    byte = static_cast<std::uint8_t>(byte | rows_[i].is_turned << (rows_[i].row % 8));
  }
  return bits;
}

SignMask SignMaskChooser::choose(std::span<SignedChange> changes, const MatrixPlace& place,
                                 std::uint64_t element_count) {
  SignMask mask;
  // A mask saves less than a bit per change and costs a bit per column.
  if (!place.has_rows() || changes.size() <= place.row_elements) return mask;
  const std::uint64_t all = changes.size();
  const std::uint64_t row_count = place.row_count(element_count);
  const auto cost = [&](std::uint64_t mask_bits) { return cost_of_signs(agreeing_, all) + (mask_bits << 16); };
  find_rows(changes, place);
  fit_columns(place.row_elements);
  const std::uint64_t plain = all << 16;
  std::uint64_t least = plain;
  if (const std::uint64_t with_columns = cost(place.row_elements); with_columns < least) {
    least = with_columns;
    mask.columns = packed_columns();
  }
  weigh_columns();
  weigh_rows_and_columns();
  std::uint64_t before = ~std::uint64_t{0};
  for (int turn = 1; turn < k_most_turns; ++turn) {
    fit_rows_and_columns();
    const std::uint64_t with_both = cost(place.row_elements + row_count);
    if (with_both < least) {
      least = with_both;
      mask.columns = packed_columns();
      mask.rows = packed_rows(row_count);
    }
    if (with_both > plain + plain / k_hopeless_part || with_both > before - before / 256) break;
    before = with_both;
  }
  // Where nearly all columns go one way the rows may do without them.
  const std::uint64_t turned = bits_set(mask.columns);
  if (!mask.rows.empty() && std::min(turned, place.row_elements - turned) <= place.row_elements / 8) {
    fit_rows();
    if (cost(row_count) < least) {
      mask.columns.clear();
      mask.rows = packed_rows(row_count);
    }
  }
  if (mask.is_empty()) return mask;
  for (std::size_t row = 0; row + 1 < rows_.size(); ++row) {
    const std::uint32_t row_flip = bit_of(mask.rows, rows_[row].row);
    for (std::size_t i = rows_[row].first; i < rows_[row + 1].first; ++i) {
      changes[i].turn(row_flip ^ bit_of(mask.columns, in_column_[i].element()));
    }
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
  for (std::uint64_t i = 0; i < count;) {
    const std::uint64_t row_flip = std::uint64_t{0} - bit_of(mask.rows, row - first_row);
    const std::uint64_t in_row = std::min(place.row_elements - column, count - i);
    std::uint64_t taken = in_row / 64 * 64;
    if (i % 64 == 0 && column % 8 == 0 && taken != 0) {
      for (std::uint64_t k = 0; k < taken; k += 64) {
        flips[(i + k) / 64] = columns_from(mask.columns, column + k) ^ row_flip;
      }
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
