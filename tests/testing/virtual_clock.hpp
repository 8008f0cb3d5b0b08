// SPDX-License-Identifier: Apache-2.0
// A clock that goes on only when everybody sleeps: races in no time, and repeatable.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace wdelta::testing {

/// Threads that take turns: one runs until it sleeps, then the one that is to wake first.
class VirtualClock {
 public:
  std::int64_t now_ms() const { return now_ms_; }

  /// Lets the running thread sleep. Outside of run() the clock just goes on.
  void sleep(std::int64_t time_ms) {
    std::unique_lock lock(mutex_);
    if (!running_) {
      now_ms_ += time_ms;
      return;
    }
    const int self = *running_;
    sleepers_.insert({now_ms_ + time_ms, self});
    wake_next();
    turns_[static_cast<std::size_t>(self)].wait(lock, [&] { return running_ == self; });
  }

  /// Runs `body(thread)` on so many threads until all of them are done.
  void run(int thread_count, const std::function<void(int)>& body) {
    turns_ = std::vector<std::condition_variable>(static_cast<std::size_t>(thread_count));
    for (int thread = 0; thread < thread_count; ++thread) sleepers_.insert({now_ms_, thread});
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < thread_count; ++thread) {
        threads.emplace_back([&, thread] {
          {
            std::unique_lock lock(mutex_);
            turns_[static_cast<std::size_t>(thread)].wait(lock, [&] { return running_ == thread; });
          }
          body(thread);
          const std::lock_guard lock(mutex_);
          wake_next();
        });
      }
      const std::lock_guard lock(mutex_);
      wake_next();
    }
  }

 private:
  // The lock is held.
  void wake_next() {
    running_.reset();
    if (!sleepers_.empty()) {
      const auto [time_ms, thread] = *sleepers_.begin();
      sleepers_.erase(sleepers_.begin());
      now_ms_ = std::max(now_ms_, time_ms);
      running_ = thread;
      turns_[static_cast<std::size_t>(thread)].notify_one();
    }
  }

  std::mutex mutex_;
  std::vector<std::condition_variable> turns_;  // of each thread: waking all of them would take most of the time
  std::optional<int> running_;
  std::set<std::pair<std::int64_t, int>> sleepers_;
  std::int64_t now_ms_ = 1'000'000;
};

}  // namespace wdelta::testing
