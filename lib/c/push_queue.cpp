// SPDX-License-Identifier: Apache-2.0
#include "c/push_queue.hpp"

namespace wdelta {

PushQueue::Turn PushQueue::wait(const Execution& execution) {
  std::unique_lock lock(mutex_);
  if (!ended_.wait(lock, execution.stop, [this] { return !is_taken_; })) execution.check_stop();
  is_taken_ = true;
  return Turn(this);
}

void PushQueue::end() {
  const std::lock_guard lock(mutex_);
  is_taken_ = false;
  ended_.notify_one();
}

}  // namespace wdelta
