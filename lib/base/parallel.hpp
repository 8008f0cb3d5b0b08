// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace wdelta {

/// Does tasks 0 … count-1 on the execution's threads and hands their results over in order.
///
/// Each thread calls `make_worker()` once and then the worker with task numbers, so a worker may own buffers. Results
/// go to `consume(task, result)`, in the order of the tasks, one at a time, on whichever thread has the next one. At
/// most 4 results a thread are held back, which bounds memory. The first exception, by task, ends all and is rethrown.
template <typename MakeWorker, typename Consume>
void ordered_parallel(std::size_t count, const Execution& execution, MakeWorker make_worker, Consume consume) {
  using Worker = decltype(make_worker());
  using Result = decltype(std::declval<Worker&>()(std::size_t{0}));

  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t next_task = 0;
    std::size_t next_result = 0;
    bool consuming = false;
    std::map<std::size_t, Result> results;
    std::size_t failed_task = SIZE_MAX;
    std::exception_ptr failure;
  } shared;
  const std::size_t threads = execution.threads < 1 ? 1 : execution.threads;
  const std::size_t window = 4 * threads;

  const auto fail = [&](std::size_t task) {
    const std::lock_guard lock(shared.mutex);
    if (task < shared.failed_task) {
      shared.failed_task = task;
      shared.failure = std::current_exception();
    }
    shared.changed.notify_all();
  };
  const auto hand_over = [&](std::unique_lock<std::mutex>& lock) {
    if (shared.consuming) return;
    shared.consuming = true;
    while (!shared.failure && !shared.results.empty() && shared.results.begin()->first == shared.next_result) {
      auto node = shared.results.extract(shared.results.begin());
      lock.unlock();
      try {
        consume(node.key(), std::move(node.mapped()));
      } catch (...) {
        fail(node.key());
      }
      lock.lock();
      ++shared.next_result;
      shared.changed.notify_all();
    }
    shared.consuming = false;
  };
  const auto work = [&] {
    std::size_t task = 0;
    StageLaps laps(execution.stages);
    try {
      Worker worker = make_worker();
      for (;;) {
        {
          laps.restart();
          std::unique_lock lock(shared.mutex);
          shared.changed.wait(lock, [&] {
            return shared.failure || shared.next_task == count || shared.next_task < shared.next_result + window;
          });
          if (shared.failure || shared.next_task == count) return;
          task = shared.next_task++;
          laps.lap(Stage::wait);
        }
        execution.check_stop();
        Result result = worker(task);
        laps.restart();
        std::unique_lock lock(shared.mutex);
        laps.lap(Stage::wait);
        shared.results.emplace(task, std::move(result));
        hand_over(lock);
      }
    } catch (...) {
      fail(task);
    }
  };

  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads && i < count; ++i) others.emplace_back(work);
    work();
    StageLaps laps(execution.stages);
    others.clear();
    laps.lap(Stage::wait);
  }
  if (shared.failure) std::rethrow_exception(shared.failure);
}

/// The same without results: tasks in any order.
template <typename MakeWorker>
void parallel_for(std::size_t count, const Execution& execution, MakeWorker make_worker) {
  struct Nothing {};
  ordered_parallel(
      count, execution,
      [&] {
        return [worker = make_worker()](std::size_t task) mutable {
          worker(task);
          return Nothing{};
        };
      },
      [](std::size_t, Nothing) {});
}

/// The same for workers that save work where they go on with the task behind their last one: each thread takes up to
/// eight in a row, and fewer and fewer towards the end, where others should not have to wait for it.
template <typename MakeWorker>
void parallel_in_runs(std::size_t count, const Execution& execution, MakeWorker make_worker) {
  constexpr std::size_t k_longest_run = 8;
  constexpr std::size_t k_runs_to_come = 8;  // for each thread, about, while any is longer than one
  const std::size_t threads = execution.threads < 1 ? 1 : execution.threads;
  std::vector<std::size_t> begins{0};
  while (begins.back() < count)
    begins.push_back(begins.back() +
                     std::clamp<std::size_t>((count - begins.back()) / (k_runs_to_come * threads), 1, k_longest_run));
  parallel_for(begins.size() - 1, execution, [&] {
    return [&, worker = make_worker()](std::size_t run) mutable {
      for (std::size_t task = begins[run]; task < begins[run + 1]; ++task) {
        execution.check_stop();
        worker(task);
      }
    };
  });
}

}  // namespace wdelta
