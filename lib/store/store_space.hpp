// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/store.hpp"

#include <cstdint>

namespace wdelta {

/// Throws local when `store` says that it has less room than `needed_bytes`; for before long work.
void require_space(const Store& store, std::uint64_t needed_bytes);

}  // namespace wdelta
