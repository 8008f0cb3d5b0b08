// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/buffer.hpp"
#include "base/mapped_stretch.hpp"
#include "base/reader.hpp"
#include "base/segments.hpp"
#include "base/stage_clock.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace wdelta {

/// One thread's way through a file that it hashes, segment by segment: bytes come into memory and into BLAKE3 in one
/// pass where the file can be mapped and is in the page cache, else one after the other. What is hashed is what came
/// into memory, whatever another process writes to the file meanwhile.
class HashingReader {
 public:
  enum class Mapping { where_faster, where_possible };

  /// `file` must outlive it.
  explicit HashingReader(const ByteReader& file, Mapping mapping = Mapping::where_faster);

  /// Fills `bytes` from `offset` on, as ByteReader::read_at does, and gives them to `hash`, whose next ones they are.
  /// They lie in one segment.
  void read(std::uint64_t offset, std::span<std::uint8_t> bytes, Blake3Segment& hash, StageLaps& laps);

  /// Gives all of segment `index` to `hash`, which has been given nothing. Bytes come into `memory` where they cannot
  /// be hashed where they lie. Nobody but `hash` sees them: of what another process writes to the file meanwhile it may
  /// have seen some and some not.
  void hash(std::size_t index, Buffer& memory, Blake3Segment& hash, StageLaps& laps);

  /// Whether a segment that it looked for in the page cache, to map it, was not there.
  bool has_missed() const { return has_missed_; }

 private:
  void enter(std::size_t index);
  bool bring(const Segment& segment);
  /// Calls work(bytes) as MappedStretch::read does; false where the segment is mapped no longer.
  template <typename Work>
  bool in_place(std::uint64_t offset, Work work);

  const ByteReader* file_;
  Mapping mapping_;
  std::optional<std::size_t> index_;  // of the segment in which it read last
  bool is_mapped_ = false;            // that segment
  std::size_t segments_to_read_ = 0;  // before it is tried again to map one
  bool has_missed_ = false;
  std::optional<MappedStretch> mapped_;  // some segments
  std::uint64_t mapped_begin_ = 0;
};

}  // namespace wdelta
