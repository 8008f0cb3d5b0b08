// SPDX-License-Identifier: Apache-2.0
#include "base/execution.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <thread>

namespace wdelta {

void Execution::check_stop() const {
  if (stop.stop_requested()) throw Error(Fault::interrupted, "", "interrupted");
}

ThreadCounts default_threads() { return {std::max(1U, std::thread::hardware_concurrency()), 1}; }

}  // namespace wdelta
