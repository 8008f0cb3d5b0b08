// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>

namespace wdelta {

/// Makes a system call again while a signal breaks it off; over NFS even open(2) and fsync(2) can be.
template <typename Call>
auto uninterrupted(Call call) {
  for (;;) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace wdelta
