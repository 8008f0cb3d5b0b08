// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace wdelta {

/// Threads of a store that fetch what its readers will ask for next. They start when there is work, and end with it.
class ReadAhead {
 public:
  explicit ReadAhead(unsigned threads) : most_threads_(threads) {}
  ReadAhead(const ReadAhead&) = delete;
  /// What has not begun by then is forgotten; waits for what has.
  ~ReadAhead();

  /// `task` must not throw, nor hold the last reference to this. Returns false, and forgets it, where no thread will do
  /// it: this is ending, or the system has none.
  bool submit(std::function<void()> task);

 private:
  void work();

  unsigned most_threads_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  unsigned idle_ = 0;
  bool ending_ = false;
  std::vector<std::jthread> threads_;  // last: they use the rest
};

}  // namespace wdelta
