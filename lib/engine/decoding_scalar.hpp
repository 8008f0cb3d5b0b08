// SPDX-License-Identifier: Apache-2.0
// CodingKernels that decode, for any processor. Other engines take them for what is left over.
#pragma once

#include "engine/kernels.hpp"

namespace wdelta {

void decode_symbols_scalar(CodedPairs* streams, std::uint32_t stream_count);

}  // namespace wdelta
