// SPDX-License-Identifier: Apache-2.0
#include "c/proven_read.hpp"

#include "base/blake3.hpp"
#include "base/buffer.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "base/segments.hpp"

namespace wdelta {

void read_proven(const ByteReader& file, const Digest& digest, const Execution& execution, const Taker& take) {
  Blake3Tree tree(file.size_bytes());
  parallel_for(tree.segment_count(), execution, [&] {
    return [&, buffer = Buffer()](std::size_t index) mutable {
      const Segment segment = segment_at(file.size_bytes(), index);
      Blake3Segment hash(tree, index);
      for_each_piece(segment, file.piece_bytes(), [&](const Segment& piece) {
        const auto bytes = buffer.of_size(piece.size_bytes);
        file.read_at(piece.begin, bytes);
        hash.update(bytes);
        take(piece.begin, bytes);
      });
      execution.progress->advance(segment.size_bytes);
    };
  });
  if (tree.finish() == digest) return;
  throw Error(Fault::corrupt, file.name(), "is not what its digest says", "run wdelta verify REPO");
}

}  // namespace wdelta
