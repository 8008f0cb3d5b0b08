// SPDX-License-Identifier: Apache-2.0
#include "store/http/rate_limit.hpp"

#include <algorithm>

namespace wdelta {

void RateLimit::wait_for(std::uint64_t bytes, const std::stop_token& stop) {
  if (!is_set()) return;
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> cost(static_cast<double>(bytes) / static_cast<double>(bytes_per_second_));
  Clock::time_point begin;
  {
    const std::lock_guard lock(mutex_);
    begin = std::max(Clock::now(), free_from_);
    free_from_ = begin + std::chrono::duration_cast<Clock::duration>(cost);
  }
  sleep_until(begin, stop);
}

void sleep_until(std::chrono::steady_clock::time_point moment, const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  stopped.wait_until(lock, stop, moment, [] { return false; });
}

}  // namespace wdelta
