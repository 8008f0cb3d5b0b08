// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/mapped_stretch.hpp"
#include "base/reader.hpp"
#include "base/stage_clock.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace wdelta {

/// One thread's way through a file that it hashes, segment by segment: bytes come into memory and into BLAKE3 in one
/// pass where the file can be mapped, else one after the other. What is hashed is what came into memory, whatever
/// another process writes to the file meanwhile.
class HashingReader {
 public:
  enum class Mapping { where_faster, where_possible };

  /// `file` must outlive it.
  explicit HashingReader(const ByteReader& file, Mapping mapping = Mapping::where_faster);

  /// Fills `bytes` from `offset` on, as ByteReader::read_at does, and gives them to `hash`, whose next ones they are.
  /// They lie in one segment.
  void read(std::uint64_t offset, std::span<std::uint8_t> bytes, Blake3Segment& hash, StageLaps& laps);

 private:
  void enter(std::size_t segment);

  const ByteReader* file_;
  bool mapping_;
  std::optional<std::size_t> segment_;   // in which it read last
  std::optional<MappedStretch> mapped_;  // that segment; nothing where it cannot be had
};

}  // namespace wdelta
