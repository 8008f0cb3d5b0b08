// SPDX-License-Identifier: Apache-2.0
#include "base/execution.hpp"

#include "base/cores.hpp"
#include "base/error.hpp"

namespace wdelta {

void Execution::check_stop() const {
  if (stop.stop_requested()) throw Error(Fault::interrupted, "", "interrupted");
}

ThreadCounts default_threads() { return {usable_cores(), 1}; }

}  // namespace wdelta
