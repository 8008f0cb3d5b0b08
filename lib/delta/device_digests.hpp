// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "engine/device_buffer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace wdelta {

/// BLAKE3 values of segments whose bytes lie on a device: asked for, worked out there, and taken once the stream was
/// waited for. Segments of each end of a delta that follow each other; one thread.
class DeviceDigests {
 public:
  enum class End { base, result };

  /// `device` must outlive it. `most` are asked for at a time.
  explicit DeviceDigests(Device& device, std::size_t most = 1);

  /// Leaves the stream to hash `count` segments from `first` on, whole subtrees of their tree, whose bytes begin at
  /// `bytes` on the device.
  void ask(End end, std::size_t first, std::size_t count, const std::uint8_t* bytes, DeviceStream& stream);
  /// Sets the segments of the tree that were asked for last of this end. The stream was waited for since.
  void take(End end, Blake3Tree& tree) const;

 private:
  struct Asked {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  std::size_t place_of(End end) const;

  std::size_t most_;
  DeviceBuffer hashing_;  // scratch memory, and values for each end
  DeviceBuffer values_;   // these, on the host
  std::array<Asked, 2> asked_;
};

}  // namespace wdelta
