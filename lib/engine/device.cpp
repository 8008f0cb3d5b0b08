// SPDX-License-Identifier: Apache-2.0
#include "engine/device.hpp"

#include <exception>

namespace wdelta {

void settle(DeviceStream& stream) noexcept {
  try {
    stream.wait();
  } catch (const std::exception&) {
    // Whoever wanted its work hears of it elsewhere; there is nothing left to wait for.
  }
}

}  // namespace wdelta
