// SPDX-License-Identifier: Apache-2.0
// CodingKernels that encode, and that AVX-512 makes faster than AVX2 and BMI2 do.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

void order_by_class_avx512(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered);
void order_bytes_by_class_avx512(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                                 const std::uint8_t* bytes, std::uint8_t* ordered);
void count_symbols_avx512(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                          std::uint32_t* counts);
void encode_symbols_avx512(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count);
std::uint64_t split_raw_bits_avx512(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                    std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                    std::uint8_t* raw);

}  // namespace wdelta
