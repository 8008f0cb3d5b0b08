// SPDX-License-Identifier: Apache-2.0
#include "store/http/read_ahead.hpp"

#include "base/begin_thread.hpp"

#include <utility>

namespace wdelta {

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
}

bool ReadAhead::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (ending_) return false;
  tasks_.push_back(std::move(task));
  const bool has_idle = idle_ >= tasks_.size();
  if (!has_idle && threads_.size() < most_threads_ && begin_thread(threads_, [this] { work(); })) return true;
  if (threads_.empty()) {
    tasks_.pop_back();
    return false;
  }
  changed_.notify_one();
  return true;
}

void ReadAhead::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    --idle_;
    if (ending_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace wdelta
