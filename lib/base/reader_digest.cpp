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

namespace {

// Calls hash_segment(index, file, memory, hash, laps) for each segment, with the thread's own reader and memory.
template <typename HashSegment>
Digest digest_by_segments(const ByteReader& reader, const Execution& execution, HashSegment hash_segment) {
  Blake3Tree tree(reader.size_bytes());
  const auto make_worker = [&] {
    return [&, file = HashingReader(reader), memory = Buffer(),
            laps = StageLaps(execution.stages)](std::size_t index) mutable {
      laps.restart();
      Blake3Segment hash(tree, index);
      hash_segment(index, file, memory, hash, laps);
      execution.progress->advance(hash.size_bytes());
    };
  };
  // Runs are for what may be mapped. Threads that share what comes from afar read it in about the order of its bytes.
  if (reader.is_at_hand()) {
    parallel_in_runs(tree.segment_count(), execution, make_worker);
  } else {
    parallel_for(tree.segment_count(), execution, make_worker);
  }
  return tree.finish();
}

}  // namespace

Digest digest_of(const ByteReader& reader, const Execution& execution) {
  return digest_by_segments(reader, execution,
                            [](std::size_t index, HashingReader& file, Buffer& memory, Blake3Segment& hash,
                               StageLaps& laps) { file.hash(index, memory, hash, laps); });
}

Digest digest_and_take(const ByteReader& reader, const Execution& execution, const PieceTaker& take) {
  return digest_by_segments(
      reader, execution,
      [&](std::size_t index, HashingReader& file, Buffer& memory, Blake3Segment& hash, StageLaps& laps) {
        for_each_piece(segment_at(reader.size_bytes(), index), reader.piece_bytes(), [&](const Segment& piece) {
          const auto bytes = memory.of_size(piece.size_bytes);
          file.read(piece.begin, bytes, hash, laps);
          take(piece.begin, bytes, laps);
        });
      });
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
