// SPDX-License-Identifier: Apache-2.0
#include "engine/signs_scalar.hpp"

#include "engine/column_votes.hpp"
#include "engine/column_weights.hpp"
#include "engine/element.hpp"
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

void weigh_columns_scalar(const std::int64_t* sums, const std::int64_t* counts, std::uint32_t columns,
                          std::int64_t* room, std::int16_t* weights) {
  weigh_columns(sums, counts, columns, room, weights, [](std::int16_t* at, std::int32_t weight) {
    at[0] = static_cast<std::int16_t>(weight);
    at[1] = static_cast<std::int16_t>(-weight);
  });
}

std::uint64_t fit_columns_scalar(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted) {
  return fit_columns(votes, columns, *fitted);
}

}  // namespace wdelta
