// SPDX-License-Identifier: Apache-2.0
// CodingKernels that encode, with AVX2, BMI1 and BMI2. What these add to scalar code is worth as much to a processor
// that has AVX-512.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

void order_by_class_avx2(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered);
void order_bytes_by_class_avx2(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                               const std::uint8_t* bytes, std::uint8_t* ordered);
void count_symbols_avx2(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                        std::uint32_t* counts);
void encode_symbols_avx2(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count);
std::uint64_t split_raw_bits_avx2(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                  std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                  std::uint8_t* raw);

}  // namespace wdelta
