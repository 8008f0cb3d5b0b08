// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace wdelta {

/// Queues of a device that threads borrow for a moment. Thread-safe.
class DeviceStreams {
 public:
  /// The device must outlive it.
  explicit DeviceStreams(Device& device) : device_(&device) {}

  /// Calls work(stream) and waits until the device has done it.
  template <typename Work>
  void with_one(Work work) const {
    std::unique_ptr<DeviceStream> stream = take();
    work(*stream);
    stream->wait();
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(stream));
  }

 private:
  std::unique_ptr<DeviceStream> take() const {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        auto stream = std::move(idle_.back());
        idle_.pop_back();
        return stream;
      }
    }
    return device_->make_stream();
  }

  Device* device_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<DeviceStream>> idle_;
};

}  // namespace wdelta
