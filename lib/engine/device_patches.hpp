// SPDX-License-Identifier: Apache-2.0
// Classed strips on their way to a device that applies them: symbols and raw bits are decoded by the host.
#pragma once

#include "engine/classed_decoder.hpp"
#include "engine/device_buffer.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// One thread, and one stream until finish() is through. Keeps its memory: 6 MiB on the device, and as much on the
/// host.
class DevicePatches {
 public:
  explicit DevicePatches(Device& device);

  /// Whatever is still asked of the device is forgotten: for a first use, and after a failure.
  void clear();
  /// The patches to come are of this group, which must stay until end().
  void begin(const GroupTables& group) { group_ = &group; }
  /// Patches elements that lie on the device: blocks of the group, from the first of a strip on, with the changes of
  /// that strip, which are copied; no two patches of a group are of the same elements. `number` is what finish() calls
  /// it.
  void add(const IndexRange& blocks, const ClassedChanges& changes, void* elements, std::size_t number,
           DeviceStream& stream);
  /// Asks the device to apply those of the group, after all before.
  void end(DeviceStream& stream);
  /// Waits for the stream, and returns the first number of a strip that was there as a whole and has a change outside
  /// its class.
  std::optional<std::size_t> finish(DeviceStream& stream);

 private:
  static constexpr std::size_t k_most_patches = 256;
  static constexpr std::size_t k_most_changes = std::size_t{1} << 19;
  static_assert(k_most_changes >= k_most_batch_changes && k_most_patch_changes >= k_most_batch_changes);

  /// Memory of the device and of the host that is filled alike, from the front.
  struct Pair {
    DeviceBuffer device;
    DeviceBuffer host;
    std::size_t launched_bytes = 0;
    std::size_t size_bytes = 0;

    explicit Pair(Device& of, std::size_t room_bytes);
    void append(const void* from, std::size_t more_bytes);
    /// Copies what was appended since, and returns where that lies on the device. What comes next is aligned.
    std::uint8_t* upload(DeviceStream& stream);
  };

  void take_statuses(DeviceStream& stream);

  FlipRoom expanded_{1};
  Pair patches_;
  Pair ranks_;
  Pair moves_;
  Pair flips_;
  std::deque<ClassBounds> bounds_;  // of each launch that was not waited for
  struct Added {
    std::size_t number;
    std::size_t begin;  ///< in patches_
    bool is_whole;      ///< no block of the strip comes behind it
  };
  std::vector<Added> added_;
  std::optional<std::size_t> failed_;
  // The launch that is being filled.
  const GroupTables* group_ = nullptr;
  std::uint32_t changes_ = 0;
  std::uint32_t flip_words_ = 0;
};

}  // namespace wdelta
