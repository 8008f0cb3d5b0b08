// SPDX-License-Identifier: Apache-2.0
// SignKernels for any processor.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

std::uint32_t list_rows_scalar(const SignsOfBlock* signs, const SignsInRows* in_rows);
void weigh_columns_scalar(const std::int32_t* sums, const std::int32_t* counts, std::uint32_t columns,
                          std::int32_t* room, std::int8_t* weights);
std::uint64_t fit_columns_scalar(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted);
void count_negatives_scalar(const std::uint8_t* signs, const std::uint32_t* begins, std::uint32_t rows,
                            std::uint32_t* negatives);
std::uint32_t set_signs_scalar(std::uint8_t* step_symbols, const std::uint8_t* signs, std::uint32_t count);

}  // namespace wdelta
