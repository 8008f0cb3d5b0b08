// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <ctime>

namespace wdelta {

/// Tells what its thread did since it was made: worked, or waited as well, for a disk, a lock or a processor.
class WaitClock {
 public:
  /// Whether it waited for an eighth of the time or more, and longer than threads do anyway when they begin.
  bool has_waited() const {
    const std::int64_t all_ns = now_ns(CLOCK_MONOTONIC) - began_ns_;
    const std::int64_t waited_ns = all_ns - (now_ns(CLOCK_THREAD_CPUTIME_ID) - worked_ns_);
    constexpr std::int64_t k_least_ns = 4'000'000;
    return waited_ns >= k_least_ns && waited_ns >= all_ns / 8;
  }

 private:
  static std::int64_t now_ns(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  std::int64_t began_ns_ = now_ns(CLOCK_MONOTONIC);
  std::int64_t worked_ns_ = now_ns(CLOCK_THREAD_CPUTIME_ID);
};

}  // namespace wdelta
