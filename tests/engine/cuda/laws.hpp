// SPDX-License-Identifier: Apache-2.0
// Laws that hold for every device: each is run over the emulated one and, where there is one, over a CUDA device.
#pragma once

#include "engine/cuda/emulated_device.hpp"
#include "engine/device.hpp"

#include <cstdlib>
#include <cstring>
#include <doctest/doctest.h>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace wdelta::testing {

/// Laws of a CUDA device are skipped where there is none, unless WDELTA_REQUIRE_CUDA=1 wants one: then they fail.
inline bool is_cuda_missing() {
  const char* const require = std::getenv("WDELTA_REQUIRE_CUDA");
  if (require != nullptr && std::string_view(require) == "1") return false;
  return cuda_device().device == nullptr;
}

inline Device& cuda_device_at_hand() {
  if (cuda_device().device == nullptr) FAIL("no CUDA device: ", cuda_device().reason);
  return *cuda_device().device;
}

/// Bytes, or entries, in a device's memory: `distance_bytes` into it, for another alignment.
template <class Entry>
class OnDevice {
 public:
  OnDevice(Device& device, std::size_t count, std::size_t distance_bytes = 0)
      : memory_(device.allocate(count * sizeof(Entry) + distance_bytes)), count_(count), distance_(distance_bytes) {}
  OnDevice(Device& device, DeviceStream& stream, std::span<const Entry> entries, std::size_t distance_bytes = 0)
      : OnDevice(device, entries.size(), distance_bytes) {
    stream.upload(begin(), entries.data(), entries.size_bytes());
    stream.wait();
  }

  Entry* begin() const { return reinterpret_cast<Entry*>(static_cast<std::uint8_t*>(memory_->begin()) + distance_); }
  std::size_t size() const { return count_; }
  /// There once the stream was waited for.
  std::vector<Entry> later(DeviceStream& stream, std::size_t first, std::size_t count) const {
    std::vector<Entry> entries(count);
    stream.download(entries.data(), begin() + first, count * sizeof(Entry));
    return entries;
  }
  std::vector<Entry> get(DeviceStream& stream) const {
    const std::vector<Entry> entries = later(stream, 0, count_);
    stream.wait();
    return entries;
  }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  std::size_t count_;
  std::size_t distance_;
};

}  // namespace wdelta::testing

#define WDELTA_LAW_OF(function, name)                                                    \
  static void function(::wdelta::Device& device);                                        \
  TEST_CASE("emulated device: " name) {                                                  \
    ::wdelta::testing::EmulatedDevice device;                                            \
    function(device);                                                                    \
  }                                                                                      \
  TEST_CASE("CUDA device: " name* doctest::skip(::wdelta::testing::is_cuda_missing())) { \
    function(::wdelta::testing::cuda_device_at_hand());                                  \
  }                                                                                      \
  static void function(::wdelta::Device& device)
#define WDELTA_LAW_CONCAT(a, b) a##b
#define WDELTA_LAW_NUMBER(number, name) WDELTA_LAW_OF(WDELTA_LAW_CONCAT(law_, number), name)
/// Like TEST_CASE, with `Device& device` in it.
#define DEVICE_LAW(name) WDELTA_LAW_NUMBER(__COUNTER__, name)
