// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, with AVX2, BMI1 and BMI2. What these add to scalar code is worth as much to a processor
// that has AVX-512.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

bool find_ranks_avx2(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                     const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions);
const std::uint8_t* decode_symbols_avx2(const std::uint32_t* slots, const std::uint8_t* change_classes,
                                        std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                        const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                        std::uint8_t* steps);
std::uint32_t join_raw_bits_avx2(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                                 std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                                 std::uint16_t* ranks, std::uint32_t* distances, std::uint64_t* raw_bits);

}  // namespace wdelta
