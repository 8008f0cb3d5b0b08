// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>

namespace wdelta {

/// Lets so many bytes a second pass, over all threads that share it.
class RateLimit {
 public:
  /// 0: all that come.
  explicit RateLimit(std::uint64_t bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  bool is_set() const { return bytes_per_second_ != 0; }
  /// Returns once `bytes` may pass, or when a stop was asked for.
  void wait_for(std::uint64_t bytes, const std::stop_token& stop);

 private:
  std::uint64_t bytes_per_second_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point free_from_;
};

/// Sleeps; less when a stop is asked for meanwhile.
void sleep_until(std::chrono::steady_clock::time_point moment, const std::stop_token& stop);

}  // namespace wdelta
