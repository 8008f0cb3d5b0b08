// SPDX-License-Identifier: Apache-2.0
#include "delta/device_segment_coder.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {
namespace {

// What a segment takes on the device at most, about, and how many are ahead of those that are coded.
constexpr std::uint64_t k_segment_memory_bytes = std::uint64_t{64} << 20;
constexpr unsigned k_most_ahead = 4;
// More threads wait for each other: calls of the CUDA runtime take turns. (H200 and 16 cores, 8 GiB of which 1 %
// changed: 290 ms with 4 and 8 threads, 320 with 16, which take 2.2 times the processor's time.)
constexpr unsigned k_most_threads = 8;

}  // namespace

DeviceSegments::DeviceSegments(const SegmentCoder::Files& files, Device& device, unsigned threads)
    : files_(files),
      device_(device),
      most_ahead_(std::clamp(threads, 1U, k_most_ahead)),
      slots_(files.segment_count()) {}

// Half of the memory is enough: others want some too.
unsigned DeviceSegments::most_threads(const Device& device) {
  const std::uint64_t segments = device.memory_bytes() / 2 / k_segment_memory_bytes;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(segments, k_most_ahead + 1, k_most_ahead + k_most_threads)) -
         k_most_ahead;
}

std::unique_ptr<DeviceSegment> DeviceSegments::idle_segment(std::unique_lock<std::mutex>& lock) {
  if (idle_.empty()) {
    lock.unlock();
    return std::make_unique<DeviceSegment>(files_, device_);
  }
  auto segment = std::move(idle_.back());
  idle_.pop_back();
  lock.unlock();
  return segment;
}

std::unique_ptr<DeviceSegment> DeviceSegments::take(std::size_t index, StageLaps& laps) {
  std::unique_lock lock(mutex_);
  Slot& slot = slots_[index];
  if (slot.state == State::none) {
    slot.state = State::taken;
    auto segment = idle_segment(lock);
    segment->start(index, laps);
    return segment;
  }
  laps.restart();
  changed_.wait(lock, [&] { return slot.state == State::started; });
  laps.lap(Stage::wait);
  slot.state = State::taken;
  --ahead_;
  if (slot.failure) std::rethrow_exception(slot.failure);
  return std::move(slot.segment);
}

void DeviceSegments::start_ahead(std::size_t behind, StageLaps& laps) {
  std::unique_lock lock(mutex_);
  std::size_t index = behind + 1;
  while (index < slots_.size() && slots_[index].state != State::none) ++index;
  if (index >= slots_.size() || ahead_ >= most_ahead_) return;
  Slot& slot = slots_[index];
  slot.state = State::starting;
  ++ahead_;
  std::unique_ptr<DeviceSegment> segment;
  std::exception_ptr failure;
  try {
    segment = idle_segment(lock);
    segment->start(index, laps);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!lock.owns_lock()) lock.lock();
  slot.segment = std::move(segment);
  slot.failure = failure;
  slot.state = State::started;
  changed_.notify_all();
}

void DeviceSegments::give_back(std::unique_ptr<DeviceSegment> segment) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(segment));
}

CodedSegment DeviceSegmentCoder::operator()(std::size_t index, std::size_t run_end) {
  auto segment = segments_->take(index, laps_);
  segments_->start_ahead(index, laps_);
  CodedSegment coded = segment->code(groups_, run_end, laps_);
  segments_->give_back(std::move(segment));
  return coded;
}

}  // namespace wdelta
