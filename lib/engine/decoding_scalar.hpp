// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, for any processor. Other engines take them where nothing faster is known, and for what is
// left over.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

bool find_ranks_scalar(const std::uint8_t* classes, std::uint32_t count, std::uint32_t class_count,
                       const std::uint32_t* class_changes, const std::uint16_t* ranks, std::uint16_t* positions);
const std::uint8_t* decode_symbols_scalar(const std::uint32_t* slots, const std::uint8_t* change_classes,
                                          std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                          const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                          std::uint8_t* steps);
std::uint32_t join_raw_bits_scalar(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                                   std::uint32_t class_count, const std::uint32_t* class_changes,
                                   const std::uint8_t* raw, std::uint16_t* ranks, std::uint32_t* distances,
                                   std::uint64_t* raw_bits);

}  // namespace wdelta
