// SPDX-License-Identifier: Apache-2.0
#include "delta/device_segment_coder.hpp"

#include "engine/device_readable.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {
namespace {

// Of files on the device: a call of the CUDA runtime takes as long as to code some hundred changes, and calls of
// several threads take turns, so there are to be few. (H200 and 16 cores, a push of `make bench-push`, 12 threads: 142
// ms; one at a time and 8 threads, 193; twice as many, 138 with 16 threads, and twice the memory.) What lies on the
// host goes through pinned memory, which takes long to get: there is little of it.
constexpr std::size_t k_most_segments = 2;
constexpr unsigned k_most_threads = 12;
// How many batches are ahead of those that are coded, and what a segment takes on the device at most, about.
constexpr unsigned k_most_ahead = 4;
constexpr std::uint64_t k_segment_memory_bytes = std::uint64_t{64} << 20;

bool are_on(const SegmentCoder::Files& files, const Device& device) {
  return readable_on(device, *files.next) && (!files.base || readable_on(device, *files.base->file));
}

}  // namespace

DeviceBatches::DeviceBatches(const SegmentCoder::Files& files, const TaskRuns& runs, Device& device, unsigned threads)
    : files_(files),
      device_(device),
      most_segments_(are_on(files, device) ? k_most_segments : 1),
      most_ahead_(std::clamp(threads, 1U, k_most_ahead)) {
  for (std::size_t begin = 0; begin < runs.count; begin = runs.end_of_run(begin)) {
    const std::size_t end = runs.end_of_run(begin);
    for (std::size_t first = begin; first < end; first += most_segments_)
      slots_.push_back({first, std::min(first + most_segments_, end), State::none, nullptr, nullptr});
  }
}

// Half of what there is: others want some too.
unsigned DeviceBatches::most_threads(Device& device) {
  const std::uint64_t batches = device.memories().room_bytes() / 2 / (k_most_segments * k_segment_memory_bytes);
  return static_cast<unsigned>(std::clamp<std::uint64_t>(batches, k_most_ahead + 1, k_most_ahead + k_most_threads)) -
         k_most_ahead;
}

DeviceBatches::Slot& DeviceBatches::slot_of(std::size_t first) {
  return *std::ranges::lower_bound(slots_, first, {}, &Slot::first);
}

std::unique_ptr<DeviceBatch> DeviceBatches::idle_batch(std::unique_lock<std::mutex>& lock) {
  if (idle_.empty()) {
    lock.unlock();
    return std::make_unique<DeviceBatch>(files_, device_, most_segments_);
  }
  auto batch = std::move(idle_.back());
  idle_.pop_back();
  lock.unlock();
  return batch;
}

std::unique_ptr<DeviceBatch> DeviceBatches::take(std::size_t first, StageLaps& laps) {
  std::unique_lock lock(mutex_);
  Slot& slot = slot_of(first);
  if (slot.state == State::none) {
    slot.state = State::taken;
    auto batch = idle_batch(lock);
    batch->start(slot.first, slot.end, laps);
    return batch;
  }
  laps.restart();
  changed_.wait(lock, [&] { return slot.state == State::started; });
  laps.lap(Stage::wait);
  slot.state = State::taken;
  --ahead_;
  if (slot.failure) std::rethrow_exception(slot.failure);
  return std::move(slot.batch);
}

void DeviceBatches::start_ahead(std::size_t behind, StageLaps& laps) {
  std::unique_lock lock(mutex_);
  const auto first = std::ranges::upper_bound(slots_, behind, {}, &Slot::first);
  const auto found = std::find_if(first, slots_.end(), [](const Slot& slot) { return slot.state == State::none; });
  if (found == slots_.end() || ahead_ >= most_ahead_) return;
  Slot& slot = *found;
  slot.state = State::starting;
  ++ahead_;
  std::unique_ptr<DeviceBatch> batch;
  std::exception_ptr failure;
  try {
    batch = idle_batch(lock);
    batch->start(slot.first, slot.end, laps);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!lock.owns_lock()) lock.lock();
  slot.batch = std::move(batch);
  slot.failure = failure;
  slot.state = State::started;
  changed_.notify_all();
}

void DeviceBatches::give_back(std::unique_ptr<DeviceBatch> batch) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(batch));
}

CodedSegment DeviceSegmentCoder::operator()(std::size_t index, std::size_t run_end) {
  if (!batch_) {
    batch_ = batches_->take(index, laps_);
    batches_->start_ahead(index, laps_);
  }
  CodedSegment coded = batch_->code_next(groups_, run_end, laps_);
  if (index + 1 == batch_->end()) batches_->give_back(std::move(batch_));
  return coded;
}

}  // namespace wdelta
