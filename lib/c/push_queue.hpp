// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>

namespace wdelta {

/// Pushes of one repository, one at a time. (A std::timed_mutex would do, but ThreadSanitizer of GCC 12 does not see
/// how that is locked.)
class PushQueue {
 public:
  struct End {
    void operator()(PushQueue* queue) const { queue->end(); }
  };
  /// Lasts as long as this; the queue must outlive it.
  using Turn = std::unique_ptr<PushQueue, End>;

  /// Throws interrupted when it is to stop before its turn has come.
  Turn wait(const Execution& execution);

 private:
  void end();

  std::mutex mutex_;
  std::condition_variable_any ended_;
  bool is_taken_ = false;
};

}  // namespace wdelta
