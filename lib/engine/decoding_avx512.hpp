// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, and that AVX-512 makes faster than AVX2 and BMI2 do.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

bool find_ranks_avx512(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                       const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions);

}  // namespace wdelta
