// SPDX-License-Identifier: Apache-2.0
#include "store/http/read_ahead.hpp"

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

void ReadAhead::submit(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  tasks_.push_back(std::move(task));
  if (idle_ >= tasks_.size() || threads_.size() >= most_threads_) {
    changed_.notify_one();
  } else {
    threads_.emplace_back([this] { work(); });
  }
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
