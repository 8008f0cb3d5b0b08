// SPDX-License-Identifier: Apache-2.0
// CodingKernels that encode, for any processor. Other engines take them where nothing faster is known, and for what is
// left over.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

void order_by_class_scalar(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered);
void order_bytes_by_class_scalar(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                                 const std::uint8_t* bytes, std::uint8_t* ordered);
void count_symbols_scalar(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                          std::uint32_t* counts);
void encode_symbols_scalar(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count);
/// Of one stream.
void encode_stream_scalar(const std::uint64_t* entries, SymbolStream& stream);
/// The same of entries that were looked up: the last of them.
void encode_entries_scalar(const std::uint64_t* of_gaps, const std::uint64_t* of_steps, std::uint32_t changes,
                           SymbolStream& stream);
std::uint64_t split_raw_bits_scalar(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                    std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                    std::uint8_t* raw);

}  // namespace wdelta
