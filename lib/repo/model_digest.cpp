// SPDX-License-Identifier: Apache-2.0
#include "repo/model_digest.hpp"

#include "base/begin_thread.hpp"
#include "base/blake3.hpp"

#include <algorithm>
#include <array>
#include <future>
#include <memory>
#include <vector>

namespace wdelta {

ModelDigest digest_of_model_file(const ByteReader& bytes, const ModelHub& models, const ModelFile& file,
                                 const Execution& execution) {
  constexpr std::uint64_t k_piece_bytes = std::uint64_t{4} << 20;
  const std::unique_ptr<EtagHash> etag = models.hash_for(file);
  Blake3 digest;
  // Two pieces: one is hashed both ways while the next is read.
  std::array<std::vector<std::uint8_t>, 2> pieces;
  std::future<void> behind;
  for (std::uint64_t begin = 0, turn = 0; begin < bytes.size_bytes(); begin += k_piece_bytes, ++turn) {
    execution.check_stop();
    std::vector<std::uint8_t>& piece = pieces[turn % 2];
    piece.resize(std::min(k_piece_bytes, bytes.size_bytes() - begin));
    bytes.read_at(begin, piece);
    if (behind.valid()) behind.get();
    behind = begin_aside([&etag, &piece] { etag->update(piece); });
    digest.update(piece);
    execution.progress->advance(piece.size());
  }
  if (behind.valid()) behind.get();
  return {digest.finish(), etag->finish()};
}

}  // namespace wdelta
