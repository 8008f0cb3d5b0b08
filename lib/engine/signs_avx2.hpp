// SPDX-License-Identifier: Apache-2.0
// SignKernels with AVX2. Weighing columns gains nothing by it.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

std::uint32_t list_rows_avx2(const SignsOfBlock* signs, const SignsInRows* in_rows);
std::uint64_t fit_columns_avx2(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted);
void count_negatives_avx2(const std::uint8_t* signs, const std::uint32_t* begins, std::uint32_t rows,
                          std::uint32_t* negatives);
std::uint32_t set_signs_avx2(std::uint8_t* step_symbols, const std::uint8_t* signs, std::uint32_t count);

}  // namespace wdelta
