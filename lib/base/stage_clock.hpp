// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

namespace wdelta {

/// What the threads that take a checkpoint through the hallway spend their time on.
enum class Stage {
  read,   ///< bytes of checkpoints and objects into memory
  hash,   ///< BLAKE3
  code,   ///< comparing and coding blocks; reading coded ones and patching
  write,  ///< results, and deltas with their digests
  wait    ///< for another thread, or a device
};
inline constexpr std::array<std::string_view, 5> k_stage_names = {"read", "hash", "code", "write", "wait"};

/// Adds up time and bytes per stage over all threads. Safe to use from several threads.
class StageClock {
 public:
  struct Total {
    std::chrono::nanoseconds time{};
    std::uint64_t bytes = 0;
  };

  void add(Stage stage, const Total& more) {
    Sum& sum = sums_[static_cast<std::size_t>(stage)];
    sum.nanoseconds.fetch_add(more.time.count(), std::memory_order_relaxed);
    sum.bytes.fetch_add(more.bytes, std::memory_order_relaxed);
  }
  Total total(Stage stage) const {
    const Sum& sum = sums_[static_cast<std::size_t>(stage)];
    return {std::chrono::nanoseconds(sum.nanoseconds.load()), sum.bytes.load()};
  }

 private:
  struct Sum {
    std::atomic<std::int64_t> nanoseconds = 0;
    std::atomic<std::uint64_t> bytes = 0;
  };
  std::array<Sum, k_stage_names.size()> sums_;
};

/// One thread's hand on a StageClock: each lap gives the time since the lap before it to a stage. Costs a look at the
/// system's clock a lap (25 ns), and nothing when there is no clock. The sums reach the clock when it is destroyed.
class StageLaps {
 public:
  /// `clock` may be null; it must outlive the laps.
  explicit StageLaps(StageClock* clock) : clock_(clock) { restart(); }
  StageLaps(StageLaps&& other) noexcept
      : clock_(std::exchange(other.clock_, nullptr)), last_(other.last_), totals_(other.totals_) {}
  StageLaps& operator=(StageLaps&&) = delete;
  ~StageLaps() {
    if (clock_ == nullptr) return;
    for (std::size_t i = 0; i < totals_.size(); ++i) clock_->add(static_cast<Stage>(i), totals_[i]);
  }

  /// What passed since the last lap belongs to no stage.
  void restart() {
    if (clock_ != nullptr) last_ = std::chrono::steady_clock::now();
  }
  void lap(Stage stage, std::uint64_t bytes = 0) {
    if (clock_ == nullptr) return;
    const auto now = std::chrono::steady_clock::now();
    StageClock::Total& total = totals_[static_cast<std::size_t>(stage)];
    total.time += now - std::exchange(last_, now);
    total.bytes += bytes;
  }

 private:
  StageClock* clock_;
  std::chrono::steady_clock::time_point last_{};
  std::array<StageClock::Total, k_stage_names.size()> totals_{};
};

}  // namespace wdelta
