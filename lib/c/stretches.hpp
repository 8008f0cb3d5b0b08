// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/parallel.hpp"

#include <algorithm>
#include <cstddef>

namespace wdelta {

/// Memory is worked on in stretches of this size.
inline constexpr std::size_t k_stretch_bytes = std::size_t{4} << 20;

/// Calls make_worker()(offset, size_bytes) for all bytes, in stretches, on the threads of the execution.
template <typename MakeWorker>
void for_each_stretch(std::size_t size_bytes, const Execution& execution, MakeWorker make_worker) {
  const auto stretch_worker = [&] {
    return [size_bytes, worker = make_worker()](std::size_t stretch) mutable {
      const std::size_t begin = stretch * k_stretch_bytes;
      worker(begin, std::min(k_stretch_bytes, size_bytes - begin));
    };
  };
  const std::size_t stretches = (size_bytes + k_stretch_bytes - 1) / k_stretch_bytes;
  if (stretches == 1) {
    stretch_worker()(0);
  } else if (stretches > 1) {
    parallel_for(stretches, execution, stretch_worker);
  }
}

}  // namespace wdelta
