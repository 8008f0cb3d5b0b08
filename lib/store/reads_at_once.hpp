// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/parallel.hpp"
#include "store/store.hpp"

#include <cstddef>

namespace wdelta {

/// Calls read(i), a small request or two, for each i below `count`: as many at a time as the store says, in any order.
/// Throws what one of them threw.
template <typename Read>
void for_each_read(const Store& store, std::size_t count, const std::stop_token& stop, Read read) {
  NoProgress silent;
  const Execution execution{store.reads_at_once(), &silent, stop};
  parallel_for(count, execution, [&read] { return [&read](std::size_t index) { read(index); }; });
}

}  // namespace wdelta
