// SPDX-License-Identifier: Apache-2.0
#include "base/reader_digest.hpp"

#include "base/blake3.hpp"
#include "base/buffer.hpp"
#include "base/hashing_reader.hpp"
#include "base/parallel.hpp"
#include "base/segments.hpp"

#include <atomic>
#include <memory>

namespace wdelta {

static_assert(ByteReader::k_small_piece_bytes % Blake3Segment::k_full_width_bytes == 0);
static_assert(ByteReader::k_large_piece_bytes % Blake3Segment::k_full_width_bytes == 0);

namespace {

// Calls hash_segment(index, file, hash, laps) for each segment, with the thread's own: of make_hash_segment(), reader
// and laps.
template <typename MakeHashSegment>
Digest digest_by_segments(const ByteReader& reader, const Execution& execution, MakeHashSegment make_hash_segment) {
  Blake3Tree tree(reader.size_bytes());
  std::atomic<bool> must_be_fetched = false;  // from a disk
  const auto make_worker = [&] {
    return [&, hash_segment = make_hash_segment(), file = HashingReader(reader),
            laps = StageLaps(execution.stages)](std::size_t index) mutable {
      laps.restart();
      Blake3Segment hash(tree, index);
      hash_segment(index, file, hash, laps);
      if (file.has_missed()) must_be_fetched = true;
      execution.progress->advance(hash.size_bytes());
    };
  };
  // Runs are for what may be mapped. What comes from afar or from a disk threads read in about the order of its bytes,
  // as they do who read ahead for them (make bench ONLY=cold, Zen 4, twice each: verify at 0.89 of dd's rate in runs to
  // the end, and at 1.02 and 0.96).
  if (reader.is_at_hand()) {
    parallel_in_runs(tree.segment_count(), execution, make_worker, &must_be_fetched);
  } else {
    parallel_for(tree.segment_count(), execution, make_worker);
  }
  return tree.finish();
}

PieceRoom buffer_room() {
  return [buffer = std::make_shared<Buffer>()](std::size_t size_bytes) { return buffer->of_size(size_bytes); };
}

}  // namespace

Digest digest_of(const ByteReader& reader, const Execution& execution) {
  return digest_by_segments(reader, execution, [] {
    return [memory = Buffer()](std::size_t index, HashingReader& file, Blake3Segment& hash, StageLaps& laps) mutable {
      file.hash(index, memory, hash, laps);
    };
  });
}

Digest digest_and_take(const ByteReader& reader, const Execution& execution, const PieceTaker& take,
                       const std::function<PieceRoom()>& make_room) {
  return digest_by_segments(reader, execution, [&] {
    return [&, room = make_room ? make_room() : buffer_room()](std::size_t index, HashingReader& file,
                                                               Blake3Segment& hash, StageLaps& laps) {
      for_each_piece(segment_at(reader.size_bytes(), index), reader.piece_bytes(), [&](const Segment& piece) {
        const auto bytes = room(piece.size_bytes);
        file.read(piece.begin, bytes, hash, laps);
        take(piece.begin, bytes, laps);
      });
    };
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
