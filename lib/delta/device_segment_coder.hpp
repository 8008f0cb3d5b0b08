// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/parallel.hpp"
#include "delta/device_batch.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace wdelta {

/// The segments of a file, in batches on their way to threads that code them: some are read, and worked on by the
/// device, before their turn has come. Thread-safe.
class DeviceBatches {
 public:
  /// What `files` points to and the device must outlive it. `threads` take batches, each all of a run.
  DeviceBatches(const SegmentCoder::Files& files, const TaskRuns& runs, Device& device, unsigned threads);

  /// The batch that begins with segment `first`, started. Each is taken once.
  std::unique_ptr<DeviceBatch> take(std::size_t first, StageLaps& laps);
  /// Starts the first behind segment `behind` that nobody has begun, unless enough are ahead.
  void start_ahead(std::size_t behind, StageLaps& laps);
  void give_back(std::unique_ptr<DeviceBatch> batch);

  /// How many threads there is memory for on the device, and use.
  static unsigned most_threads(Device& device);

 private:
  enum class State { none, starting, started, taken };
  struct Slot {
    std::size_t first;
    std::size_t end;
    State state = State::none;
    std::unique_ptr<DeviceBatch> batch;
    std::exception_ptr failure;
  };
  Slot& slot_of(std::size_t first);
  std::unique_ptr<DeviceBatch> idle_batch(std::unique_lock<std::mutex>& lock);

  const SegmentCoder::Files& files_;
  Device& device_;
  std::size_t most_segments_;
  std::size_t most_ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<DeviceBatch>> idle_;
  std::size_t ahead_ = 0;
};

/// What SegmentCoder does, with a device. One per thread.
class DeviceSegmentCoder {
 public:
  DeviceSegmentCoder(DeviceBatches& batches, BlockChoice choice, const Engine& engine, StageClock* stages)
      : batches_(&batches), groups_(engine, choice), laps_(stages) {}

  CodedSegment operator()(std::size_t index, std::size_t run_end);

 private:
  DeviceBatches* batches_;
  std::unique_ptr<DeviceBatch> batch_;  // that has the next segment
  RunGroups groups_;
  StageLaps laps_;
};

}  // namespace wdelta
