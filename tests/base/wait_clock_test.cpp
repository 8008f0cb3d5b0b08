// SPDX-License-Identifier: Apache-2.0
#include "base/wait_clock.hpp"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <filesystem>
#include <sched.h>
#include <thread>

namespace wdelta {
namespace {

using namespace std::chrono_literals;

void work_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

/// This thread, and those that it begins, all have one and the same processor while this lives.
class OneProcessor {
 public:
  OneProcessor() {
    REQUIRE(::sched_getaffinity(0, sizeof(before_), &before_) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &one);
    REQUIRE(::sched_setaffinity(0, sizeof(one), &one) == 0);
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace

TEST_CASE("a thread that sleeps has waited") {
  const WaitClock clock;
  CHECK(!clock.has_waited());
  std::this_thread::sleep_for(20ms);
  CHECK(clock.has_waited());
}

// Where the system does not say how long a thread was ready, a clock cannot tell.
TEST_CASE("a thread that works while others have its processor has not" *
          doctest::skip(!std::filesystem::exists("/proc/thread-self/schedstat"))) {
  const OneProcessor one;
  std::atomic<bool> is_over = false;
  std::jthread other([&] {
    while (!is_over) {
    }
  });
  // A hypervisor may have the processor, too, which no thread is told: not each time.
  bool has_waited = true;
  for (int i = 0; has_waited && i < 20; ++i) {
    const WaitClock clock;
    work_for(40ms);
    has_waited = clock.has_waited();
  }
  CHECK(!has_waited);
  const WaitClock clock;
  std::this_thread::sleep_for(40ms);
  CHECK(clock.has_waited());
  is_over = true;
}

}  // namespace wdelta
