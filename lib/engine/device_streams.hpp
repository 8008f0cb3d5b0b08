// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"
#include "engine/device_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace wdelta {

/// Queues of a device that threads borrow for a moment: Device::streams(). To make one takes as long as to copy some
/// MiB, so as many as were borrowed at a time stay, each with the pinned memory that it came to need. Thread-safe.
class DeviceStreams {
 public:
  /// The device must outlive it.
  explicit DeviceStreams(Device& device) : device_(&device) {}

  /// Calls work(stream) and waits until the device has done it.
  template <typename Work>
  void with_one(Work work) {
    Lane lane = take();
    work(*lane.stream);
    lane.stream->wait();
    give_back(std::move(lane));
  }

  /// Copies, and waits. What lies on the host need not be pinned: between such memory and the device a driver copies
  /// through pinned memory too, but for all threads alike, one after the other. What Device::pins() holds goes
  /// straight.
  void upload(void* to, const void* from, std::size_t size_bytes);
  /// What read(offset, piece) puts into each piece, one after the other.
  using Read = std::function<void(std::size_t offset, std::span<std::uint8_t> piece)>;
  void upload(void* to, std::size_t size_bytes, const Read& read);
  void download(void* to, const void* from, std::size_t size_bytes);

 private:
  struct Lane {
    DeviceBuffer pinned;
    std::unique_ptr<DeviceStream> stream;  // the first to go: it may still be copying
  };
  Lane take();
  void give_back(Lane lane);

  Device* device_;
  std::mutex mutex_;
  std::vector<Lane> idle_;
};

}  // namespace wdelta
