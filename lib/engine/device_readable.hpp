// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/device.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {

/// What a reader is too whose bytes, or most of them, are on a device, or made there.
class DeviceReadable {
 public:
  virtual ~DeviceReadable() = default;

  /// Whether that is so for this device: else its bytes are read into the host's memory and copied from there.
  virtual bool is_on(const Device& device) const = 0;
  /// Fills `size_bytes` at `to`, on the device, from `offset`; the range lies inside. All is there once the stream has
  /// been waited for. Safe to call from several threads, each with a stream of its own.
  virtual void read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const = 0;
};

/// The same reader, where its bytes are on this device; else null.
template <class Reader>
const DeviceReadable* readable_on(const Device& device, const Reader& file) {
  const auto* const readable = dynamic_cast<const DeviceReadable*>(&file);
  return readable != nullptr && readable->is_on(device) ? readable : nullptr;
}

}  // namespace wdelta
