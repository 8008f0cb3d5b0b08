// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "engine/device_buffer.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {

/// BLAKE3 values of segments whose bytes lie on a device: asked for, worked out there, and taken once the stream was
/// waited for. One segment of each end of a delta at a time; one thread.
class DeviceDigests {
 public:
  enum class End { base, result };

  /// `device` must outlive it.
  explicit DeviceDigests(Device& device);

  /// Leaves the stream to hash segment `index`, a whole subtree of its tree, which begins at `bytes` on the device.
  void ask(End end, std::size_t index, const std::uint8_t* bytes, DeviceStream& stream);
  /// Sets segment `index` of the tree to what was asked for last of this end. The stream was waited for since.
  void take(End end, std::size_t index, Blake3Tree& tree) const;

 private:
  DeviceBuffer hashing_;  // scratch memory, and a value for each end
  DeviceBuffer values_;   // these, on the host
};

}  // namespace wdelta
