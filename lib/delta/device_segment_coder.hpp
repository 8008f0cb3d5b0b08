// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "delta/device_segment.hpp"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace wdelta {

/// Segments on their way to threads that code them: some are read, and worked on by the device, before their turn has
/// come. Thread-safe.
class DeviceSegments {
 public:
  /// What `files` points to and the device must outlive it. `threads` take segments.
  DeviceSegments(const SegmentCoder::Files& files, Device& device, unsigned threads);

  /// Segment `index`, started. Each is taken once.
  std::unique_ptr<DeviceSegment> take(std::size_t index, StageLaps& laps);
  /// Starts the first behind segment `behind` that nobody has begun, unless enough are ahead.
  void start_ahead(std::size_t behind, StageLaps& laps);
  void give_back(std::unique_ptr<DeviceSegment> segment);

  /// How many threads there is memory for on the device, and use.
  static unsigned most_threads(const Device& device);

 private:
  enum class State { none, starting, started, taken };
  struct Slot {
    State state = State::none;
    std::unique_ptr<DeviceSegment> segment;
    std::exception_ptr failure;
  };
  std::unique_ptr<DeviceSegment> idle_segment(std::unique_lock<std::mutex>& lock);

  const SegmentCoder::Files& files_;
  Device& device_;
  std::size_t most_ahead_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<DeviceSegment>> idle_;
  std::size_t ahead_ = 0;
};

/// What SegmentCoder does, with a device. One per thread.
class DeviceSegmentCoder {
 public:
  DeviceSegmentCoder(DeviceSegments& segments, BlockChoice choice, const Engine& engine, StageClock* stages)
      : segments_(&segments), groups_(engine, choice), laps_(stages) {}

  CodedSegment operator()(std::size_t index, std::size_t run_end);

 private:
  DeviceSegments* segments_;
  RunGroups groups_;
  StageLaps laps_;
};

}  // namespace wdelta
