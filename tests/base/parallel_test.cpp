// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"

#include "testing/execution.hpp"
#include "testing/fault.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>

namespace wdelta {

namespace {
constexpr unsigned k_thread_counts[] = {0, 1, 2, 5, 16};
constexpr std::size_t k_task_counts[] = {0, 1, 2, 7, 300};

struct TaskFailure : std::runtime_error {
  explicit TaskFailure(std::size_t failed) : std::runtime_error("failed"), task(failed) {}
  std::size_t task;
};

void linger(std::size_t task) {
  if (task % 7 == 3) std::this_thread::sleep_for(std::chrono::microseconds(200));
}
}  // namespace

TEST_CASE("tasks in runs are done once each, most of them behind the one before by the same worker") {
  for (const unsigned threads : k_thread_counts) {
    for (const std::size_t count : k_task_counts) {
      CAPTURE(threads);
      CAPTURE(count);
      const testing::SilentExecution execution(threads);
      std::vector<std::atomic<int>> done(count);
      std::atomic<std::size_t> jumps = 0;
      parallel_in_runs(count, execution, [&] {
        return [&, next = SIZE_MAX](std::size_t task) mutable {
          linger(task);
          ++done.at(task);
          jumps += task != next ? 1 : 0;
          next = task + 1;
        };
      });
      for (const std::atomic<int>& times : done) REQUIRE(times == 1);
      if (count == 300 && threads <= 2) CHECK(jumps < count / 3);
    }
  }
}

TEST_CASE("a run is done by one worker from its first task to its last, and results arrive once each and in order") {
  for (const unsigned threads : k_thread_counts) {
    for (const auto& [tasks, run] : {std::pair{0UL, 8UL}, {1, 8}, {2, 1}, {7, 8}, {300, 1}, {300, 8}}) {
      const std::size_t count = tasks, longest = run;  // clang 14 captures no bindings
      CAPTURE(threads);
      CAPTURE(count);
      CAPTURE(longest);
      const testing::SilentExecution execution(threads);
      const TaskRuns runs{count, longest, 4};
      std::vector<std::size_t> run_ends;
      for (std::size_t begin = 0; begin < count; begin = runs.end_of_run(begin))
        run_ends.resize(runs.end_of_run(begin), runs.end_of_run(begin));
      std::vector<std::size_t> results;
      ordered_in_runs(
          runs, execution,
          [&] {
            return [&, next = std::size_t{0}](std::size_t task, std::size_t run_end) mutable {
              linger(task);
              const bool begins_run = task == 0 || run_ends.at(task - 1) == task;
              if (run_end != run_ends.at(task) || (!begins_run && task != next)) throw std::logic_error("wrong run");
              next = task + 1;
              return task * task;
            };
          },
          [&](std::size_t task, std::size_t result) {
            if (task != results.size()) throw std::logic_error("out of order");
            results.push_back(result);
          });
      REQUIRE(results.size() == count);
      for (std::size_t task = 0; task < count; ++task) REQUIRE(results[task] == task * task);
    }
  }
}

TEST_CASE("each thread has one worker, and there are never more threads than asked for") {
  for (const unsigned threads : k_thread_counts) {
    const testing::SilentExecution execution(threads);
    std::atomic<unsigned> workers = 0;
    parallel_for(100, execution, [&] {
      ++workers;
      return [](std::size_t) {};
    });
    CHECK(workers >= 1);
    CHECK(workers <= std::max(1u, threads));
  }
}

TEST_CASE("spare threads begin once a task has waited, each with a worker, and take part in all that is left") {
  for (const unsigned spare : {0U, 1U, 3U}) {
    const testing::SilentExecution silent(2);
    Execution execution = silent;
    execution.spare_threads = spare;
    std::atomic<unsigned> workers = 0;
    std::atomic<unsigned> at_work = 0;
    std::vector<std::size_t> consumed;
    const auto make_worker = [&] {
      ++workers;
      return [&](std::size_t task, std::size_t) {
        ++at_work;
        // The first two wait; the others until all that there should be are at work.
        std::this_thread::sleep_for(std::chrono::milliseconds(8));
        for (int i = 0; task >= 2 && i < 1000 && at_work < 2 + 2 + spare; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return task;
      };
    };
    ordered_in_runs(TaskRuns{40}, execution, make_worker,
                    [&](std::size_t, std::size_t task) { consumed.push_back(task); });
    CAPTURE(spare);
    CHECK(workers == 2 + spare);
    REQUIRE(consumed.size() == 40);
    CHECK(std::ranges::is_sorted(consumed));
  }
}

TEST_CASE("runs that begin when they are said to be over are of one task each") {
  constexpr std::size_t k_longest = 8, k_last_in_run = 20;
  for (const unsigned threads : k_thread_counts) {
    CAPTURE(threads);
    const testing::SilentExecution execution(threads);
    std::atomic<bool> are_over = false;
    const TaskRuns runs{300, k_longest, 1, &are_over};
    std::vector<std::size_t> run_ends;
    ordered_in_runs(
        runs, execution,
        [&] {
          return [&](std::size_t task, std::size_t run_end) {
            if (task == k_last_in_run) are_over = true;
            return run_end;
          };
        },
        [&](std::size_t, std::size_t run_end) { run_ends.push_back(run_end); });
    // As far ahead of it another run may have begun before.
    const std::size_t behind_runs = k_last_in_run + (3 + k_longest) * std::max(threads, 1U) + k_longest;
    for (std::size_t task = 0; task < runs.count; ++task) {
      const std::size_t in_run = task / k_longest * k_longest + k_longest;
      if (task <= k_last_in_run) REQUIRE(run_ends.at(task) == in_run);
      if (task >= behind_runs) REQUIRE(run_ends.at(task) == task + 1);
    }
  }
}

TEST_CASE("no task runs more than three results and two runs a thread ahead of the first that is not consumed") {
  for (const auto& [workers, run] : {std::pair{0U, 1U}, {1U, 1U}, {2U, 1U}, {5U, 1U}, {1U, 8U}, {5U, 8U}}) {
    const unsigned threads = workers, longest = run;  // clang 14 captures no bindings
    CAPTURE(threads);
    CAPTURE(longest);
    const testing::SilentExecution execution(threads);
    std::atomic<std::size_t> consumed = 0;
    std::atomic<std::size_t> farthest = 0;
    ordered_in_runs(
        TaskRuns{200, longest}, execution,
        [&] {
          return [&](std::size_t task, std::size_t) {
            std::size_t ahead = task - consumed.load();
            for (std::size_t seen = farthest; ahead > seen && !farthest.compare_exchange_weak(seen, ahead);) {
            }
            return task;
          };
        },
        [&](std::size_t task, std::size_t) {
          if (task % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          consumed = task + 1;
        });
    CHECK(farthest <= (3 + longest) * std::max(1u, threads) + longest - 1);
  }
}

TEST_CASE("of several failing tasks the first one's exception is thrown, and nothing behind it is consumed") {
  for (const unsigned threads : k_thread_counts) {
    for (unsigned round = 0; round < 20; ++round) {
      const testing::SilentExecution execution(threads);
      std::size_t consumed = 0;
      std::size_t failed = SIZE_MAX;
      try {
        ordered_in_runs(
            TaskRuns{100, 1 + round % 8}, execution,
            [] {
              return [](std::size_t task, std::size_t) {
                linger(task);
                if (task >= 30 && task % 3 == 0) throw TaskFailure(task);
                return task;
              };
            },
            [&](std::size_t, std::size_t) { ++consumed; });
      } catch (const TaskFailure& failure) {
        failed = failure.task;
      }
      REQUIRE(failed == 30);
      REQUIRE(consumed <= 30);
    }
  }
}

TEST_CASE("a thread in the middle of a run does no task behind one that failed") {
  const testing::SilentExecution execution(2);
  constexpr std::size_t k_longest = 1000;
  std::atomic<bool> has_failed = false;
  std::atomic<std::size_t> done_since = 0;
  std::size_t failed = SIZE_MAX;
  try {
    ordered_in_runs(
        TaskRuns{2 * k_longest, k_longest}, execution,
        [&] {
          return [&](std::size_t task, std::size_t) {
            if (task < k_longest) {  // of the first run, which fails once the second is on its way
              while (done_since == 0) std::this_thread::yield();
              has_failed = true;
              throw TaskFailure(task);
            }
            ++done_since;
            while (!has_failed) std::this_thread::yield();
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            return task;
          };
        },
        [](std::size_t, std::size_t) {});
  } catch (const TaskFailure& failure) {
    failed = failure.task;
  }
  CHECK(failed == 0);
  CHECK(done_since < k_longest);
}

TEST_CASE("an exception of the consumer or of a worker's making ends all") {
  for (const unsigned threads : k_thread_counts) {
    const testing::SilentExecution execution(threads);
    std::size_t consumed = 0;
    CHECK_THROWS_AS(ordered_in_runs(
                        TaskRuns{100}, execution, [] { return [](std::size_t task, std::size_t) { return task; }; },
                        [&](std::size_t task, std::size_t) {
                          if (task == 5) throw TaskFailure(task);
                          ++consumed;
                        }),
                    TaskFailure);
    CHECK(consumed == 5);
    CHECK_THROWS_AS(parallel_for(10, execution, []() -> std::function<void(std::size_t)> { throw std::bad_alloc(); }),
                    std::bad_alloc);
  }
}

TEST_CASE("a consumer that threw is not called again, whatever is there for it") {
  constexpr unsigned k_threads = 4;
  const testing::SilentExecution execution(k_threads);
  std::atomic<unsigned> ended = 0;  // threads, with all that they have done handed over
  std::size_t called = 0;
  const auto make_worker = [&] {
    return [&, end = std::shared_ptr<void>(nullptr, [&](void*) { ++ended; })](std::size_t task, std::size_t) {
      while (task == 0 && ended < k_threads - 1) std::this_thread::yield();
      return task;
    };
  };
  CHECK_THROWS_AS(ordered_in_runs(TaskRuns{k_threads}, execution, make_worker,
                                  [&](std::size_t task, std::size_t) {
                                    ++called;
                                    throw TaskFailure(task);
                                  }),
                  TaskFailure);
  CHECK(called == 1);
}

TEST_CASE("a stop that was asked for ends work as interrupted, before or in the middle") {
  for (const unsigned threads : k_thread_counts) {
    for (const std::size_t stop_at : {std::size_t{0}, std::size_t{40}}) {
      testing::RecordedProgress progress;
      std::stop_source stop;
      const Execution execution{threads, &progress, stop.get_token()};
      if (stop_at == 0) stop.request_stop();
      std::atomic<std::size_t> done = 0;
      const auto work = [&] {
        parallel_for(1000, execution, [&] {
          return [&](std::size_t) {
            if (++done == stop_at) stop.request_stop();
            // Whoever asks may be held up before it does.
            while (done > stop_at && !stop.stop_requested()) std::this_thread::yield();
          };
        });
      };
      CHECK(testing::fault_of(work) == Fault::interrupted);
      CHECK(done <= stop_at + threads);
    }
  }
}

}  // namespace wdelta
