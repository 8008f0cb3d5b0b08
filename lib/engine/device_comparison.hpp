// SPDX-License-Identifier: Apache-2.0
// Blocks of several groups compared on a device: only their changes come home.
#pragma once

#include "engine/change_symbols.hpp"
#include "engine/class_map.hpp"
#include "engine/device_buffer.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// One batch of blocks at a time, in steps between which the stream has to be waited for: find(), then fetch(), then
/// for each group rank(). Owns its memory, on the device and on the host, and keeps it from batch to batch.
class DeviceComparison {
 public:
  /// Both must outlive it. A batch is of up to `most_blocks`: what is found of each needs room for a whole one.
  DeviceComparison(Device& device, DeviceStream& stream, std::size_t most_blocks);

  void clear();
  /// How many blocks can still be added.
  std::size_t room() const { return most_blocks_ - blocks_.size(); }
  /// Begins a group of blocks of elements that are at most 4 bytes wide; returns its number. Groups of the same type
  /// that follow each other share launches.
  std::size_t begin_group(ElementType type);
  /// A block of the newest group, on the device, where there is room.
  void add(const DeviceBlock& block);
  bool has_blocks() const { return !blocks_.empty(); }

  /// Asks the device where all blocks differ.
  void find();
  /// Waited for: asks for the changes of all groups but those in which so much changed that it is not worth it.
  void fetch();
  bool is_fetched(std::size_t group) const { return groups_[group].is_fetched; }
  /// Waited for: the changes of block `block` of a group that is fetched.
  ComparedBlock compared(std::size_t group, std::size_t block) const;
  /// Asks for their places in these classes, which must stay until they are waited for.
  void rank(std::size_t group, const ClassBounds& bounds);
  /// Waited for.
  RankedChanges ranked(std::size_t group, std::size_t block) const;

 private:
  /// Blocks that follow each other, and their changes, of those that are fetched.
  struct Range {
    std::size_t first_block = 0;
    std::size_t block_count = 0;
    std::uint32_t first_change = 0;
    std::uint32_t changes = 0;

    std::size_t end_block() const { return first_block + block_count; }
  };
  /// Groups of one type: what a launch is of.
  struct Launch {
    ElementType type;
    Range all;
    std::size_t steps = 0;  ///< where they lie in what is packed
  };
  struct Group {
    std::size_t launch;
    Range all;
    bool is_fetched = false;
    // Where what is packed of it lies.
    std::size_t members = 0;  ///< of each block; behind them ranks and classes, which come home with them
    std::size_t ranks = 0;
    std::size_t classes = 0;
  };
  /// What is packed, on the device and on the host alike: positions of all groups, their contexts, and the steps of one
  /// launch behind another's; then, for each group, what rank() asks for.
  struct Packed {
    std::size_t contexts = 0;
    std::size_t fetched_end = 0;
    std::size_t end = 0;
  };
  /// Lists on the device and on the host, one behind the other, each with room for all blocks.
  struct Lists {
    std::size_t counts = 0;  ///< as found; the blocks lie in front of them
    std::size_t fetched_counts = 0;
    std::size_t starts = 0;
    std::size_t end = 0;
  };
  ElementType type_of(const Group& group) const { return launches_[group.launch].type; }
  DeviceChanges found(const Range& range) const;
  void choose_fetched();
  void lay_out(std::uint32_t changes);
  void pack(const Range& range, std::span<const DevicePacking> arrays);
  void download(std::size_t offset, std::size_t size_bytes);

  DeviceStream* stream_;
  std::size_t most_blocks_;
  Lists in_lists_;
  std::vector<DeviceBlock> blocks_;
  std::vector<Launch> launches_;
  std::vector<Group> groups_;
  std::size_t widest_bytes_ = 1;       // of the types of the groups
  std::vector<std::uint32_t> starts_;  // block by block
  Packed packed_;
  DeviceBuffer lists_;
  DeviceBuffer host_lists_;
  DeviceBuffer positions_;
  DeviceBuffer steps_;
  DeviceBuffer contexts_;  // later the classes
  DeviceBuffer ranks_;
  DeviceBuffer packed_on_device_;
  DeviceBuffer packed_on_host_;
};

}  // namespace wdelta
