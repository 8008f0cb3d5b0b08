// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/begin_thread.hpp"
#include "base/execution.hpp"
#include "base/wait_clock.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace wdelta {

/// Tasks 0 … count-1 in runs, which one thread does from the first task to the last.
struct TaskRuns {
  std::size_t count;
  std::size_t longest = 1;
  /// No run but of a single task is a larger part than one in so many of the tasks from its first on: towards the end
  /// they are shorter and shorter, so that no thread is waited for long.
  std::size_t least_parts = 1;
  /// Null, or must outlive the work: runs that begin once it is true are of a single task each.
  const std::atomic<bool>* are_over = nullptr;

  /// Behind the last task of the run that begins with `begin`.
  std::size_t end_of_run(std::size_t begin) const {
    if (are_over != nullptr && *are_over) return begin + 1;
    return begin + std::clamp<std::size_t>((count - begin) / least_parts, 1, longest);
  }
};

/// Does tasks in runs on the execution's threads and hands their results over in order.
///
/// Each thread calls `make_worker()` once, and then the worker with a task's number and where its run ends, so a worker
/// may own buffers, and go on where it was. Results go to `consume(task, result)`, in the order of the tasks, one at a
/// time, on whichever thread has the next one. No run is begun more than three results and the longest run a thread
/// ahead of the first that is not consumed, which bounds memory. Spare threads begin once a thread has waited
/// (WaitClock), between two of its tasks. Threads that the system does not have are done without. The first exception,
/// by task, ends all and is rethrown.
template <typename MakeWorker, typename Consume>
void ordered_in_runs(const TaskRuns& runs, const Execution& execution, MakeWorker make_worker, Consume consume) {
  using Worker = decltype(make_worker());
  using Result = decltype(std::declval<Worker&>()(std::size_t{0}, std::size_t{1}));

  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t next_task = 0;  // with which the next run begins
    std::size_t next_result = 0;
    bool consuming = false;
    bool is_short_handed = false;  // a task has waited: the spare threads have begun
    std::map<std::size_t, Result> results;
    std::size_t failed_task = SIZE_MAX;
    std::exception_ptr failure;
  } shared;
  const std::size_t threads = execution.threads < 1 ? 1 : execution.threads;
  const std::size_t window = (3 + runs.longest) * (threads + execution.spare_threads);
  std::vector<std::jthread> spare;

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
  const std::function<void()> work = [&] {
    std::size_t task = 0;
    StageLaps laps(execution.stages);
    std::optional<WaitClock> clock;
    if (execution.spare_threads > 0) clock.emplace();
    try {
      Worker worker = make_worker();
      for (;;) {
        std::size_t end = 0;
        {
          laps.restart();
          std::unique_lock lock(shared.mutex);
          shared.changed.wait(lock, [&] {
            return shared.failure || shared.next_task == runs.count || shared.next_task < shared.next_result + window;
          });
          if (shared.failure || shared.next_task == runs.count) return;
          task = shared.next_task;
          end = shared.next_task = runs.end_of_run(task);
          laps.lap(Stage::wait);
        }
        for (; task < end; ++task) {
          execution.check_stop();
          Result result = worker(task, end);
          const bool has_waited = clock && clock->has_waited();
          laps.restart();
          std::unique_lock lock(shared.mutex);
          laps.lap(Stage::wait);
          if (has_waited && !std::exchange(shared.is_short_handed, true))
            begin_threads(spare, execution.spare_threads, work);
          shared.results.emplace(task, std::move(result));
          hand_over(lock);
          if (task >= shared.failed_task) return;
        }
      }
    } catch (...) {
      fail(task);
    }
  };

  {
    std::vector<std::jthread> others;
    begin_threads(others, std::min(threads, std::max<std::size_t>(runs.count, 1)) - 1, work);
    work();
    StageLaps laps(execution.stages);
    others.clear();
    spare.clear();  // which only one of the others has begun
    laps.lap(Stage::wait);
  }
  if (shared.failure) std::rethrow_exception(shared.failure);
}

/// The same without results and without an order among them, for workers that only want the task's number.
template <typename MakeWorker>
void parallel_for(const TaskRuns& runs, const Execution& execution, MakeWorker make_worker) {
  struct Nothing {};
  const auto make = [&] {
    return [worker = make_worker()](std::size_t task, std::size_t) mutable {
      worker(task);
      return Nothing{};
    };
  };
  ordered_in_runs(runs, execution, make, [](std::size_t, Nothing) {});
}

/// The same, each task on its own.
template <typename MakeWorker>
void parallel_for(std::size_t count, const Execution& execution, MakeWorker make_worker) {
  parallel_for(TaskRuns{count}, execution, make_worker);
}

/// The same for workers that save work where they go on with the task behind their last one: each thread takes up to
/// eight in a row. `are_over`: see TaskRuns.
template <typename MakeWorker>
void parallel_in_runs(std::size_t count, const Execution& execution, MakeWorker make_worker,
                      const std::atomic<bool>* are_over = nullptr) {
  constexpr std::size_t k_longest_run = 8;
  constexpr std::size_t k_runs_to_come = 8;  // for each thread, about, while any is longer than one
  const std::size_t threads = execution.threads < 1 ? 1 : execution.threads;
  parallel_for(TaskRuns{count, k_longest_run, k_runs_to_come * threads, are_over}, execution, make_worker);
}

}  // namespace wdelta
