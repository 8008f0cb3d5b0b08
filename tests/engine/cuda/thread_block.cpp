// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/thread_block.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <numeric>

namespace wdelta::testing {

void ThreadBlock::begin(std::uint32_t threads) {
  threads_ = threads;
  while (lanes_.size() < threads) lanes_.emplace_back();
  warps_.resize(lanes_.size() / k_lanes);
  order_.resize(threads / k_lanes);
  std::iota(order_.begin(), order_.end(), 0);
}

void ThreadBlock::wait(std::uint32_t thread, Meeting meeting) {
  lanes_[thread].waits_at = meeting;
  lanes_[thread].fiber->stop();
}

const std::array<std::uint32_t, ThreadBlock::k_lanes>& ThreadBlock::meet_warp(std::uint32_t thread, Meeting meeting,
                                                                              std::uint32_t value) {
  auto& brought = warps_[thread / k_lanes].brought[lanes_[thread].warp_meetings++ % 2];
  brought[thread % k_lanes] = value;
  wait(thread, meeting);
  return brought;
}

void ThreadBlock::refuse(const std::string& what) {
  // Stacks that something still stands on cannot begin anew.
  lanes_.clear();
  throw Error(Fault::internal, "thread block", what);
}

// Until all its threads wait for others of the thread block, or have ended.
void ThreadBlock::run_warp(std::uint32_t warp) {
  Lane* const lanes = &lanes_[warp * k_lanes];
  for (;;) {
    const bool backwards = random_() % 2 == 0;
    for (std::uint32_t i = 0; i < k_lanes; ++i) {
      Lane& lane = lanes[backwards ? k_lanes - 1 - i : i];
      if (!lane.fiber->has_ended() && lane.waits_at == Meeting::none) lane.fiber->resume();
    }
    const auto meets_warp = [](const Lane& lane) {
      return !lane.fiber->has_ended() && lane.waits_at != Meeting::block && lane.waits_at != Meeting::none;
    };
    const auto waiting = std::count_if(lanes, lanes + k_lanes, meets_warp);
    if (waiting == 0) return;
    const bool are_one = std::all_of(lanes, lanes + k_lanes, [&](const Lane& lane) {
      return lane.waits_at == lanes->waits_at && lane.warp_meetings == lanes->warp_meetings;
    });
    if (waiting != k_lanes || !are_one) refuse("threads of a warp come to different meetings");
    for (std::uint32_t i = 0; i < k_lanes; ++i) lanes[i].waits_at = Meeting::none;
  }
}

void ThreadBlock::finish() {
  for (std::uint32_t i = 0; i < threads_; ++i) {
    lanes_[i].waits_at = Meeting::none;
    lanes_[i].warp_meetings = 0;
  }
  for (;;) {
    std::shuffle(order_.begin(), order_.end(), random_);
    for (const std::uint32_t warp : order_) run_warp(warp);
    std::uint32_t ended = 0;
    for (std::uint32_t i = 0; i < threads_; ++i) ended += lanes_[i].fiber->has_ended() ? 1 : 0;
    if (ended == threads_) return;
    if (ended != 0) refuse("some threads have ended, others wait for them");
    for (std::uint32_t i = 0; i < threads_; ++i) lanes_[i].waits_at = Meeting::none;
  }
}

}  // namespace wdelta::testing
