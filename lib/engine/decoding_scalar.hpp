// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, for any processor. Other engines take them where nothing faster is known, and for what is
// left over.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

const std::uint8_t* decode_symbols_scalar(const DecodeTable* tables, const std::uint8_t* change_classes,
                                          std::uint32_t changes, std::uint32_t lanes, std::uint32_t* states,
                                          const std::uint8_t* words, const std::uint8_t* words_end, std::uint8_t* gaps,
                                          std::uint8_t* steps);

}  // namespace wdelta
