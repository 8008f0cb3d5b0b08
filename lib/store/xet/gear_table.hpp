// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace wdelta {

/// What each byte adds to the rolling hash that cuts files into chunks.
extern const std::array<std::uint64_t, 256> k_gear_table;

}  // namespace wdelta
