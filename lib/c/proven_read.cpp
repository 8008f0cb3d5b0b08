// SPDX-License-Identifier: Apache-2.0
#include "c/proven_read.hpp"

#include "base/error.hpp"

namespace wdelta {

void read_proven(const ByteReader& file, const Digest& digest, const Execution& execution, const Taker& take,
                 const std::function<PieceRoom()>& make_room) {
  const PieceTaker take_and_lap = [&](std::uint64_t offset, std::span<const std::uint8_t> bytes, StageLaps& laps) {
    take(offset, bytes);
    laps.lap(Stage::write, bytes.size());
  };
  if (digest_and_take(file, execution, take_and_lap, make_room) == digest) return;
  throw Error(Fault::corrupt, file.name(), "is not what its digest says", "run wdelta verify REPO");
}

}  // namespace wdelta
