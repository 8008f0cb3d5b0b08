// SPDX-License-Identifier: Apache-2.0
// Executions for tests: silent ones, and ones that break off.
#pragma once

#include "base/error.hpp"
#include "base/execution.hpp"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace wdelta::testing {

/// Keeps notes, counts bytes.
class RecordedProgress : public Progress {
 public:
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t bytes) override { advanced_bytes_ += bytes; }
  void note(std::string_view text) override {
    const std::lock_guard lock(mutex_);
    notes_.emplace_back(text);
  }

  std::uint64_t advanced_bytes() const { return advanced_bytes_; }
  std::vector<std::string> notes() const {
    const std::lock_guard lock(mutex_);
    return notes_;
  }

 private:
  std::atomic<std::uint64_t> advanced_bytes_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> notes_;
};

/// Throws at the call of advance() with a given number, as if the user had broken the work off there.
class BreakingProgress final : public RecordedProgress {
 public:
  explicit BreakingProgress(std::uint64_t calls) : calls_left_(calls) {}
  void advance(std::uint64_t bytes) override {
    if (calls_left_.fetch_sub(1) == 0) throw Error(Fault::interrupted, "", "broken off by the test");
    RecordedProgress::advance(bytes);
  }

 private:
  std::atomic<std::uint64_t> calls_left_;
};

/// An execution with a progress of its own that nobody looks at.
class SilentExecution {
 public:
  explicit SilentExecution(unsigned threads = 1) : execution_{threads, &progress_, {}} {}
  operator const Execution&() const { return execution_; }

 private:
  RecordedProgress progress_;
  Execution execution_;
};

}  // namespace wdelta::testing
