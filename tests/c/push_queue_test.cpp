// SPDX-License-Identifier: Apache-2.0
#include "c/push_queue.hpp"

#include "testing/fault.hpp"

#include <doctest/doctest.h>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

namespace wdelta {

using testing::fault_of;

TEST_CASE("whoever waits for its turn can be stopped, and the turn goes to the next") {
  PushQueue queue;
  PushQueue::Turn turn = queue.wait({});
  std::stop_source stop;
  Execution stopped;
  stopped.stop = stop.get_token();
  std::optional<Fault> fault;
  std::jthread waiting([&] { fault = fault_of([&] { queue.wait(stopped); }); });
  std::jthread next([&] { queue.wait({}); });
  stop.request_stop();
  waiting.join();
  CHECK(fault == Fault::interrupted);
  turn.reset();
  next.join();
  CHECK(queue.wait({}) != nullptr);
}

TEST_CASE("turns do not overlap, and each sees what those before it did") {
  PushQueue queue;
  std::size_t sum = 0;  // not atomic
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int k = 0; k < 1000; ++k) {
          const PushQueue::Turn turn = queue.wait({});
          const std::size_t seen = sum;
          std::this_thread::yield();
          sum = seen + 1;
        }
      });
    }
  }
  CHECK(sum == 4000);
}

}  // namespace wdelta
