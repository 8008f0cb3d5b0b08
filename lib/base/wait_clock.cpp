// SPDX-License-Identifier: Apache-2.0
#include "base/wait_clock.hpp"

#include "base/file.hpp"
#include "base/system_call.hpp"

#include <charconv>
#include <ctime>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace wdelta {

namespace {

std::int64_t now_ns(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// How long this thread has been ready while others had the processor: the second number of proc(5)'s schedstat. 0 where
// the system does not say it.
std::int64_t queued_ns() {
  const Fd file(uninterrupted([] { return ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC); }));
  if (!file) return 0;
  char bytes[64];
  const ssize_t got = uninterrupted([&] { return ::read(file.get(), bytes, sizeof(bytes)); });
  const std::string_view line(bytes, got < 0 ? 0 : static_cast<std::size_t>(got));
  const std::size_t space = line.find(' ');
  std::int64_t queued = 0;
  if (space != std::string_view::npos) std::from_chars(line.data() + space + 1, line.data() + line.size(), queued);
  return queued;
}

}  // namespace

WaitClock::WaitClock()
    : queued_ns_(queued_ns()), began_ns_(now_ns(CLOCK_MONOTONIC)), worked_ns_(now_ns(CLOCK_THREAD_CPUTIME_ID)) {}

bool WaitClock::has_waited() const {
  constexpr std::int64_t k_least_ns = 4'000'000;
  const std::int64_t all_ns = now_ns(CLOCK_MONOTONIC) - began_ns_;
  std::int64_t waited_ns = all_ns - (now_ns(CLOCK_THREAD_CPUTIME_ID) - worked_ns_);
  const auto is_long = [&] { return waited_ns >= k_least_ns && waited_ns >= all_ns / 8; };
  if (!is_long()) return false;  // mostly, and then there is no need to ask the system
  waited_ns -= queued_ns() - queued_ns_;
  return is_long();
}

}  // namespace wdelta
