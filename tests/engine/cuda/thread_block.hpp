// SPDX-License-Identifier: Apache-2.0
// A thread block whose threads take turns on the host.
#pragma once

#include "engine/cuda/fiber.hpp"

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace wdelta::testing {

/// Runs the threads of thread blocks, each until it comes to a meeting, in an order that changes from turn to turn:
/// what is left to chance on a device is left to chance here. One thread at a time.
class ThreadBlock {
 public:
  static constexpr std::uint32_t k_lanes = 32;
  enum class Meeting : std::uint8_t { none, block, any, shuffle, shuffle_up };

  /// Calls work(thread) for each of `threads` (a multiple of 32). Throws Error(internal) when some wait at another
  /// meeting than the rest, or have ended.
  template <class Work>
  void run(std::uint32_t threads, Work work) {
    begin(threads);
    for (std::uint32_t i = 0; i < threads; ++i) {
      lanes_[i].fiber->start([&work, i] { work(i); });
    }
    finish();
  }

  // Called by threads.
  void meet(std::uint32_t thread) { wait(thread, Meeting::block); }
  /// What the 32 threads of the warp brought to this meeting.
  const std::array<std::uint32_t, k_lanes>& meet_warp(std::uint32_t thread, Meeting meeting, std::uint32_t value);

 private:
  struct Lane {
    std::unique_ptr<Fiber> fiber = std::make_unique<Fiber>();
    Meeting waits_at = Meeting::none;
    std::uint32_t warp_meetings = 0;
  };
  struct Warp {
    // Who goes on early may bring something to the next meeting before the last has read what came to this.
    std::array<std::array<std::uint32_t, k_lanes>, 2> brought;
  };

  void begin(std::uint32_t threads);
  void finish();
  void wait(std::uint32_t thread, Meeting meeting);
  void run_warp(std::uint32_t warp);
  [[noreturn]] void refuse(const std::string& what);

  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  std::vector<std::uint32_t> order_;
  std::uint32_t threads_ = 0;
  std::minstd_rand random_;
};

/// What agents are given: lib/engine/cuda/device_code.hpp.
class EmulatedThreads {
 public:
  EmulatedThreads(ThreadBlock& of, std::uint32_t thread, std::size_t block)
      : of_(&of), block_(block), thread_(thread) {}

  std::uint32_t thread() const { return thread_; }
  std::size_t block() const { return block_; }
  void meet() const { of_->meet(thread_); }
  bool any(std::uint32_t value) const {
    for (const std::uint32_t brought : of_->meet_warp(thread_, ThreadBlock::Meeting::any, value)) {
      if (brought != 0) return true;
    }
    return false;
  }
  std::uint32_t shuffle(std::uint32_t value, std::uint32_t lane) const {
    return of_->meet_warp(thread_, ThreadBlock::Meeting::shuffle, value).at(lane);
  }
  std::uint32_t shuffle_up(std::uint32_t value, std::uint32_t lanes) const {
    const std::uint32_t own = thread_ % ThreadBlock::k_lanes;
    const auto& brought = of_->meet_warp(thread_, ThreadBlock::Meeting::shuffle_up, value);
    return own < lanes ? value : brought[own - lanes];
  }

 private:
  ThreadBlock* of_;
  std::size_t block_;
  std::uint32_t thread_;
};

}  // namespace wdelta::testing
