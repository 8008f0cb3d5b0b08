// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace wdelta::testing {

/// Says of each intrinsic of the model whether it gives something else than the processor, and returns how many do. The
/// processor must have AVX-512 as the engine asks for it.
int wrong_intrinsics(std::uint64_t seed);

}  // namespace wdelta::testing
