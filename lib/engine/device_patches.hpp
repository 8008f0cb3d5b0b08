// SPDX-License-Identifier: Apache-2.0
// Classed strips on their way to a device that applies them: symbols and raw bits are decoded by the host.
#pragma once

#include "engine/classed_decoder.hpp"
#include "engine/device_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace wdelta {

/// One thread, and one stream until finish() is through. Calls of a driver take turns, so there are as few as can be:
/// for all patches that follow each other a copy and a launch, and one copy of what became of them. Keeps its memory:
/// 4 MiB on the device, and as much on the host.
class DevicePatches {
 public:
  explicit DevicePatches(Device& device);

  /// Whatever is still asked of the device is forgotten: for a first use, and after a failure.
  void clear();
  /// Patches elements that lie on the device: blocks of a group, from the first of a strip on, with the changes of that
  /// strip. The group skips no rows. All is copied. No two patches up to end() are of the same elements. `number` is
  /// what finish() calls it.
  void add(const GroupTables& group, const IndexRange& blocks, const ClassedChanges& changes, void* elements,
           std::size_t number, DeviceStream& stream);
  /// Asks the device to apply those that were added, after all before.
  void end(DeviceStream& stream);
  /// Waits for the stream, and returns the first number of a strip that was there as a whole and has a change outside
  /// its class.
  std::optional<std::size_t> finish(DeviceStream& stream);

 private:
  /// What a launch is given, in the memory of both: one array behind the other.
  struct Arrays {
    std::size_t ranks, moves, flips, end;
  };
  Arrays arrays_of(std::size_t patches, std::size_t changes, std::size_t flip_words) const;
  void take_statuses(DeviceStream& stream);

  FlipRoom expanded_{1};
  // Launches, one behind the other, and then what became of each patch.
  DeviceBuffer device_;
  DeviceBuffer host_;
  std::size_t launched_bytes_ = 0;
  struct Added {
    std::size_t number;
    bool is_whole;  ///< no block of the strip comes behind it
  };
  std::vector<Added> added_;
  std::optional<std::size_t> failed_;
  // The launch that is being filled.
  ElementType type_;
  std::vector<DevicePatch> patches_;
  std::vector<std::uint32_t> ranks_;
  std::vector<std::uint8_t> moves_;
  std::vector<std::uint64_t> flips_;
};

}  // namespace wdelta
