// SPDX-License-Identifier: Apache-2.0
#include "base/reader_digest.hpp"

#include "base/blake3.hpp"
#include "base/buffer.hpp"
#include "base/hashing_reader.hpp"
#include "base/parallel.hpp"
#include "base/segments.hpp"

namespace wdelta {

static_assert(ByteReader::k_small_piece_bytes % Blake3Segment::k_full_width_bytes == 0);
static_assert(ByteReader::k_large_piece_bytes % Blake3Segment::k_full_width_bytes == 0);

Digest digest_and_take(const ByteReader& reader, const Execution& execution, const PieceTaker& take) {
  Blake3Tree tree(reader.size_bytes());
  parallel_for(tree.segment_count(), execution, [&] {
    return [&, file = HashingReader(reader), buffer = Buffer(),
            laps = StageLaps(execution.stages)](std::size_t index) mutable {
      laps.restart();
      const Segment segment = segment_at(reader.size_bytes(), index);
      Blake3Segment hash(tree, index);
      for_each_piece(segment, reader.piece_bytes(), [&](const Segment& piece) {
        const auto bytes = buffer.of_size(piece.size_bytes);
        file.read(piece.begin, bytes, hash, laps);
        take(piece.begin, bytes, laps);
      });
      execution.progress->advance(segment.size_bytes);
    };
  });
  return tree.finish();
}

Digest digest_of(const ByteReader& reader, const Execution& execution) {
  return digest_and_take(reader, execution, [](std::uint64_t, std::span<const std::uint8_t>, StageLaps&) {});
}

Digest copy_and_digest(const ByteReader& reader, OutputFile& copy, const Execution& execution) {
  copy.reserve(reader.size_bytes());
  return digest_and_take(reader, execution,
                         [&](std::uint64_t offset, std::span<const std::uint8_t> bytes, StageLaps& laps) {
                           copy.write_at(offset, bytes);
                           laps.lap(Stage::write, bytes.size());
                         });
}

}  // namespace wdelta
