// SPDX-License-Identifier: Apache-2.0
// SignKernels with AVX-512.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

std::uint32_t list_rows_avx512(const SignsOfBlock* signs, const SignsInRows* in_rows);
void weigh_columns_avx512(const std::int64_t* sums, const std::int64_t* counts, std::uint32_t columns,
                          std::int64_t* room, std::int16_t* weights);
std::uint64_t fit_columns_avx512(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted);

}  // namespace wdelta
