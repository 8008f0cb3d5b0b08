// SPDX-License-Identifier: Apache-2.0
#include "engine/signs_scalar.hpp"

#include "engine/column_votes.hpp"
#include "engine/column_weights.hpp"
#include "engine/element.hpp"
#include "engine/kernel_elements.hpp"
#include "engine/row_division.hpp"

namespace wdelta {
namespace {

// Most rows have a dozen changes or so, never the same number: each change is asked for its row, so that no branch
// depends on where rows end.
template <class T>
std::uint32_t list_rows(const SignsOfBlock* signs, const T* steps, const SignsInRows* in_rows) {
  const RowDivision division(signs->row_elements);
  std::uint32_t rows = 0;
  std::uint32_t before = signs->last_row;
  for (std::uint32_t i = 0; i < signs->count; ++i) {
    const std::uint32_t at = signs->first_element + signs->positions[i];
    const auto row = static_cast<std::uint32_t>(std::uint64_t{at} * division.factor >> division.shift);
    in_rows->row_indices[rows] = row;
    in_rows->row_begins[rows] = signs->first_change + i;
    rows += row != before ? 1 : 0;
    before = row;
    in_rows->columns[i] = 2 * (at - row * signs->row_elements) | (steps[i] & 1U);
  }
  return rows;
}

}  // namespace

std::uint32_t list_rows_scalar(const SignsOfBlock* signs, const SignsInRows* in_rows) {
  return with_narrow_width(signs->width_bytes,
                           [&]<class T>(T) { return list_rows(signs, static_cast<const T*>(signs->steps), in_rows); });
}

void weigh_columns_scalar(const std::int32_t* sums, const std::int32_t* counts, std::uint32_t columns,
                          std::int32_t* room, std::int8_t* weights) {
  weigh_columns(sums, counts, columns, room, weights, [](std::int8_t* at, std::int32_t weight) {
    at[0] = static_cast<std::int8_t>(weight);
    at[1] = static_cast<std::int8_t>(-weight);
  });
}

std::uint64_t fit_columns_scalar(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted) {
  return fit_columns(votes, columns, *fitted);
}

void count_negatives_scalar(const std::uint8_t* signs, const std::uint32_t* begins, std::uint32_t rows,
                            std::uint32_t* negatives) {
  for (std::uint32_t row = 0; row < rows; ++row) {
    std::uint32_t count = 0;
    for (std::uint32_t i = begins[row]; i < begins[row + 1]; ++i) count += signs[i];
    negatives[row] = count;
  }
}

std::uint32_t set_signs_scalar(std::uint8_t* step_symbols, const std::uint8_t* signs, std::uint32_t count) {
  constexpr std::uint64_t k_signs = 0x0101010101010101;  // of eight symbols
  std::uint32_t negatives = 0;
  std::uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto word = load<std::uint64_t>(step_symbols + i, 0);
    const auto of_word = load<std::uint64_t>(signs + i, 0);
    store<std::uint64_t>(step_symbols + i, 0, (word & ~k_signs) | of_word);
    negatives += static_cast<std::uint32_t>((of_word * k_signs) >> 56);
  }
  for (; i < count; ++i) {
    step_symbols[i] = static_cast<std::uint8_t>((step_symbols[i] & ~1U) | signs[i]);
    negatives += signs[i];
  }
  return negatives;
}

}  // namespace wdelta
