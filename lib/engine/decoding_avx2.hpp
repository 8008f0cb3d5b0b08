// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, with AVX2, BMI1 and BMI2. What these add to scalar code is worth as much to a processor
// that has AVX-512.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

const std::uint8_t* decode_symbols_avx2(const DecodeTable* tables, const std::uint8_t* change_classes,
                                        std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                        const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                        std::uint8_t* steps);

}  // namespace wdelta
