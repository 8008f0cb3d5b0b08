// SPDX-License-Identifier: Apache-2.0
#include "store/store_space.hpp"

#include "base/space.hpp"

namespace wdelta {

void require_space(const Store& store, std::uint64_t needed_bytes) {
  require_space(store.name(), {needed_bytes, store.free_bytes()});
}

}  // namespace wdelta
