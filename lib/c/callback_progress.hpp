// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "include/wdelta.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <stop_token>
#include <string>

namespace wdelta {

/// Tells a caller's functions how work goes on, one call at a time, and takes from them when it is to stop.
class CallbackProgress final : public Progress {
 public:
  CallbackProgress(const wdelta_callbacks& callbacks, std::stop_source stop)
      : callbacks_(callbacks), stop_(std::move(stop)) {}

  void begin(std::string_view label, std::uint64_t total_bytes) override;
  void advance(std::uint64_t bytes) override;
  void note(std::string_view text) override;

 private:
  using Clock = std::chrono::steady_clock;
  void tell();

  wdelta_callbacks callbacks_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::string label_ = "opening";
  std::uint64_t total_bytes_ = 0;
  std::atomic<std::uint64_t> done_bytes_ = 0;
  std::atomic<Clock::rep> next_time_ = 0;
};

}  // namespace wdelta
