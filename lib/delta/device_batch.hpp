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

/// Segments of next that follow each other, and of the base beside them, on a device: hashed and compared there
/// together, for each launch costs what comparing some MiB does; coded by the host, one after the other. See
/// SegmentCoder, whose results it has. One thread at a time; it keeps its memory from batch to batch.
class DeviceBatch {
 public:
  /// All must outlive it. It is of up to `most_segments`.
  DeviceBatch(const SegmentCoder::Files& files, Device& device, std::size_t most_segments);
  ~DeviceBatch() { settle(*stream_); }
  DeviceBatch(const DeviceBatch&) = delete;
  DeviceBatch& operator=(const DeviceBatch&) = delete;

  /// Reads the segments from `first` to before `end` and leaves the device to work on them.
  void start(std::size_t first, std::size_t end, StageLaps& laps);
  std::size_t end() const { return end_; }
  /// Its next segment; its run ends before segment `run_end`. `groups` has those of the segments before it in this run.
  CodedSegment code_next(RunGroups& groups, std::size_t run_end, StageLaps& laps);

 private:
  /// Where the bytes lie that a block is compared with.
  enum class Beside { base, zeros };
  struct Block {
    std::uint64_t begin;  ///< in next
    std::size_t size_bytes;
    std::size_t base_place;  ///< in base_
  };
  /// Blocks of one tensor that begin in one segment.
  struct Part {
    std::size_t segment;
    std::size_t tensor;
    Beside beside;
    ElementType type;
    std::size_t first_block;
    std::size_t block_count;
    std::optional<std::size_t> compared;  ///< its number in comparison_
  };
  /// The segments of a file with these numbers, as far as it has them.
  struct Hashed {
    Blake3Tree* tree = nullptr;
    std::uint64_t file_bytes = 0;
    std::size_t first = 0;
    std::size_t end = 0;
    std::size_t place = 0;  ///< of the first, in their stretch

    std::uint64_t begin_bytes() const;
    std::uint64_t end_bytes() const;
    std::size_t size_bytes() const { return static_cast<std::size_t>(end_bytes() - begin_bytes()); }
    std::size_t subtree_count() const;
  };
  class Bytes;

  std::span<const Block> blocks_of(const Part& part) const {
    return std::span(blocks_).subspan(part.first_block, part.block_count);
  }
  Hashed hashed_of(const ByteReader& file, Blake3Tree& tree) const;
  void list_blocks();
  void read_next();
  void read_base();
  std::size_t place_in_next(std::uint64_t offset) const {
    return static_cast<std::size_t>(offset - hashed_next_.begin_bytes());
  }
  void ask_digests(DeviceDigests::End end, const DeviceStretch& stretch, const Hashed& hashed);
  void take_digests(DeviceDigests::End end, DeviceStretch& stretch, const Hashed& hashed);
  void ask_changes();
  void take_findings(StageLaps& laps);
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

  std::size_t first_ = 0;
  std::size_t end_ = 0;
  std::size_t index_ = 0;      // of the segment that is coded next
  std::size_t next_part_ = 0;  // in which its parts begin
  Hashed hashed_next_;
  Hashed hashed_base_;
  std::vector<Block> blocks_;
  std::vector<Part> parts_;
};

}  // namespace wdelta
