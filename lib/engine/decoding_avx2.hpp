// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, with AVX2.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

void decode_symbols_avx2(CodedPairs* streams, std::uint32_t stream_count);

}  // namespace wdelta
