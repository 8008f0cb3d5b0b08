// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/hashing_reader.hpp"
#include "base/reader.hpp"
#include "base/segments.hpp"
#include "base/stage_clock.hpp"
#include "base/window.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace wdelta {

/// A file on its way through one thread, in runs of segments: read in pieces into a window, and hashed there. Some
/// bytes around the run can be had too; they are hashed where they belong.
class HashedStream {
 public:
  /// Both must outlive it; `tree` is of the file's size.
  HashedStream(const ByteReader& file, Blake3Tree& tree) : file_(&file), tree_(&tree), reader_(file) {}

  /// Begins segment `index` of a run that ends before `run_end`, or goes on with it where it was begun already; behind
  /// the last one all are empty. The window then begins at or before `from`, which is at or before the segment's begin,
  /// and not behind the end of the file; or, in the midst of a run, at what was not dropped.
  void start(std::size_t index, std::size_t run_end, std::uint64_t from, StageLaps& laps);
  /// The one that was begun last.
  const Segment& segment() const { return segment_; }
  bool all_read() const { return window_.end() >= segment_.end(); }
  /// Reads and hashes on to `offset`, and a little more where that is how hashing comes in whole widths. Not all must
  /// have been read.
  void read_to(std::uint64_t offset, StageLaps& laps);
  /// Once all was read, as often as need be: reads what follows the segment, up to `offset` or a little more. Of the
  /// run that is the begin of the next segment, which goes on from there; behind the run it is not hashed.
  void read_behind(std::uint64_t offset, StageLaps& laps);

  /// The offset up to which the file was read.
  std::uint64_t end() const { return window_.end(); }
  /// Bytes that were read and not dropped.
  std::span<const std::uint8_t> bytes(std::uint64_t from, std::uint64_t to) { return window_.bytes(from, to); }
  /// Forgets what lies before `offset`, as far as it was read.
  void drop_before(std::uint64_t offset);

 private:
  void begin(std::size_t index);
  void read(std::size_t size_bytes, StageLaps& laps);

  const ByteReader* file_;
  Blake3Tree* tree_;
  std::optional<std::size_t> index_;  // of the segment
  std::size_t run_end_ = 0;
  Segment segment_;
  std::optional<Blake3Segment> hash_;
  HashingReader reader_;
  Window window_;
};

}  // namespace wdelta
