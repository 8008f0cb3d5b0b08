// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask.hpp"

#include "engine/symbol_table.hpp"

#include <algorithm>
#include <cstddef>

namespace wdelta {
namespace {

// Rows and columns are fitted in turn, each to the other: the best approximation of the signs by one row times one
// column is a power iteration. Each turn is a pass over the changes; what a further one gains falls off quickly.
constexpr int k_most_turns = 8;

/// n log2 n, in 1/65536 of a bit.
std::uint64_t weight(std::uint64_t n) { return n * log2_fixed(n); }

std::uint64_t cost_of_signs(std::uint64_t agreeing, std::uint64_t all) {
  return weight(all) - weight(agreeing) - weight(all - agreeing);
}

std::vector<std::uint8_t> packed(std::span<const std::uint8_t> flags) {
  std::vector<std::uint8_t> bits((flags.size() + 7) / 8);
  for (std::size_t i = 0; i < flags.size(); ++i) {
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | flags[i] << (i % 8));
  }
  return bits;
}

std::uint32_t bit_of(const std::vector<std::uint8_t>& bits, std::uint64_t at) {
  return bits.empty() ? 0 : (bits[at / 8] >> (at % 8)) & 1U;
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
  column_is_turned_.resize(column_count);
  for (const SignedChange change : in_column_) {
    ++column_changes_[change.element()];
    column_negatives_[change.element()] += change.negative();
  }
  turn_columns();
}

// Rows to the columns as they are, and then columns to these: row by row, while its changes are in cache.
void SignMaskChooser::fit_rows_and_columns() {
  std::ranges::fill(column_negatives_, 0);
  std::uint32_t* const column_negatives = column_negatives_.data();
  const std::uint8_t* const column_is_turned = column_is_turned_.data();
  for (std::size_t row = 0; row + 1 < rows_.size(); ++row) {
    const std::uint32_t count = rows_[row + 1].first - rows_[row].first;
    const std::span<const SignedChange> changes = std::span(in_column_).subspan(rows_[row].first, count);
    std::uint32_t negatives = 0;
    for (const SignedChange change : changes) negatives += change.negative() ^ column_is_turned[change.element()];
    const std::uint32_t turn = 2 * negatives > count ? 1 : 0;
    rows_[row].is_turned = turn;
    for (const SignedChange change : changes) column_negatives[change.element()] += change.negative() ^ turn;
  }
  turn_columns();
}

void SignMaskChooser::turn_columns() {
  const std::uint32_t* const changes = column_changes_.data();
  const std::uint32_t* const negatives = column_negatives_.data();
  std::uint8_t* const is_turned = column_is_turned_.data();
  const std::size_t count = column_changes_.size();
  std::uint32_t agreeing = 0;
  for (std::size_t i = 0; i < count; ++i) agreeing += std::max(negatives[i], changes[i] - negatives[i]);
  for (std::size_t i = 0; i < count; ++i) is_turned[i] = 2 * negatives[i] > changes[i] ? 1 : 0;
  agreeing_ = agreeing;
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
  std::uint64_t least = all << 16;
  if (const std::uint64_t with_columns = cost(place.row_elements); with_columns < least) {
    least = with_columns;
    mask.columns = packed(column_is_turned_);
  }
  std::uint64_t before = cost(place.row_elements + row_count);
  std::uint64_t gain_before = 0;
  for (int turn = 0; turn < k_most_turns; ++turn) {
    fit_rows_and_columns();
    const std::uint64_t with_both = cost(place.row_elements + row_count);
    if (with_both < least) {
      least = with_both;
      mask.columns = packed(column_is_turned_);
      mask.rows = packed_rows(row_count);
    }
    const std::uint64_t gain = before > with_both ? before - with_both : 0;
    if (gain < before / 256) break;
    // A pattern that is there comes out faster with each turn, until it is found; chance gains less and less.
    if (turn > 1 && mask.is_empty() && gain < gain_before * 3 / 5) break;
    before = with_both;
    gain_before = gain;
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
