// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"
#include "base/stage_clock.hpp"
#include "delta/device_digests.hpp"
#include "delta/device_stretch.hpp"
#include "delta/segment_coder.hpp"
#include "engine/device_comparison.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// One segment of next, and of the base beside it, on a device: hashed and compared there, coded by the host. See
/// SegmentCoder, whose results it has. One thread at a time; it keeps its memory from segment to segment.
class DeviceSegment {
 public:
  /// All must outlive it.
  DeviceSegment(const SegmentCoder::Files& files, Device& device);
  ~DeviceSegment() { settle(*stream_); }
  DeviceSegment(const DeviceSegment&) = delete;
  DeviceSegment& operator=(const DeviceSegment&) = delete;

  /// Reads segment `index` and leaves the device to work on it.
  void start(std::size_t index, StageLaps& laps);
  /// Its run ends before segment `run_end`. `groups` has those of the segments before it in this run.
  CodedSegment code(RunGroups& groups, std::size_t run_end, StageLaps& laps);

 private:
  /// Where the bytes lie that a block is compared with.
  enum class Beside { base, zeros };
  struct Block {
    std::uint64_t begin;  ///< in next
    std::size_t size_bytes;
    std::size_t base_place;  ///< in base_
  };
  /// Blocks of one tensor.
  struct Part {
    std::size_t tensor;
    Beside beside;
    ElementType type;
    std::size_t first_block;
    std::size_t block_count;
    std::optional<std::size_t> compared;  ///< its number in comparison_
  };
  /// A file's segment with that number, where it has one.
  struct Hashed {
    Blake3Tree* tree;
    Segment segment;
    std::size_t place;  ///< in its stretch
  };
  class Bytes;

  std::span<const Block> blocks_of(const Part& part) const {
    return std::span(blocks_).subspan(part.first_block, part.block_count);
  }
  void list_blocks();
  void read_next();
  void read_base();
  std::uint64_t place_in_base(std::uint64_t offset) const;
  bool passes_by(std::size_t tensor) const;
  void ask_digest(DeviceDigests::End end, const DeviceStretch& stretch, const Hashed& hashed);
  void take_digest(DeviceDigests::End end, DeviceStretch& stretch, const Hashed& hashed);
  void ask_changes();
  void code_part(const Part& part, GroupEncoder& encoder);
  void code_compared(const Part& part, GroupEncoder& encoder);
  std::span<const std::uint8_t> next_of(const Block& block);
  std::span<const std::uint8_t> base_of(const Part& part, const Block& block);

  SegmentCoder::Files files_;
  std::unique_ptr<DeviceStream> stream_;
  DeviceStretch next_;
  DeviceStretch base_;
  DeviceComparison comparison_;
  DeviceDigests digests_;
  Buffer zeros_;

  std::size_t index_ = 0;
  std::uint64_t next_begin_ = 0;  // the offset in next with which next_ begins
  Hashed hashed_next_{};
  Hashed hashed_base_{};
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
};

}  // namespace wdelta
