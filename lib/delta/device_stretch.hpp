// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "engine/device_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// Parts of files, one behind the other in memory of a device. Those that are read into the host's memory first stay
/// there too; others are brought there where they are looked at. Nothing of it may be touched by the stream's work that
/// was not waited for when it is cleared.
class DeviceStretch {
 public:
  /// Both must outlive it.
  DeviceStretch(Device& device, DeviceStream& stream)
      : device_(&device),
        stream_(&stream),
        on_device_(device, DeviceBuffer::Place::device),
        on_host_(device, DeviceBuffer::Place::pinned) {}

  /// Forgets all, and makes room for so many bytes.
  void restart(std::size_t most_bytes);
  /// Reads behind what it has, and returns where in the stretch that begins.
  std::size_t append(const ByteReader& file, std::uint64_t offset, std::size_t size_bytes);

  std::uint8_t* on_device(std::size_t place) const { return on_device_.begin() + place; }
  /// Bytes that one append() read. Waits for the stream where they have to be brought; earlier spans stay valid too.
  std::span<const std::uint8_t> on_host(std::size_t place, std::size_t size_bytes);

 private:
  /// A part whose bytes were not on the host.
  struct Part {
    std::size_t begin;
    std::size_t end;
  };

  std::uint8_t* room_for(std::size_t size_bytes);

  Device* device_;
  DeviceStream* stream_;
  DeviceBuffer on_device_;
  DeviceBuffer on_host_;  // as on the device, where anything was read into the host's memory
  std::vector<Part> absent_;
  std::size_t room_bytes_ = 0;
  std::size_t size_bytes_ = 0;
  // What was brought to be looked at, piece by piece: little of a stretch is, and pinned memory takes long to get.
  std::vector<DeviceBuffer> brought_;
  std::size_t brought_index_ = 0;  // of the one that is being filled
  std::size_t brought_bytes_ = 0;  // in it
};

}  // namespace wdelta
