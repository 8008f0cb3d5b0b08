// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace wdelta {

/// Tells what its thread did since it was made: worked, or waited as well, for a disk or a lock. That others had the
/// processor is no such waiting, as far as the system says so.
class WaitClock {
 public:
  WaitClock();

  /// Whether it waited for an eighth of the time or more, and longer than threads do anyway when they begin.
  bool has_waited() const;

 private:
  std::int64_t queued_ns_;  // first: what the thread is kept from while it asks is no waiting, either
  std::int64_t began_ns_;
  std::int64_t worked_ns_;
};

}  // namespace wdelta
