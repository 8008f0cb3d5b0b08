// SPDX-License-Identifier: Apache-2.0
#include "c/proven_read.hpp"

#include "base/error.hpp"

#include <fmt/format.h>

namespace wdelta {

void read_proven(const ProvableFile& file, const Execution& execution, const Taker& take,
                 const std::function<PieceRoom()>& make_room) {
  const PieceTaker take_and_lap = [&](std::uint64_t offset, std::span<const std::uint8_t> bytes, StageLaps& laps) {
    take(offset, bytes);
    laps.lap(Stage::write, bytes.size());
  };
  const Digest found = digest_and_take(*file.bytes, execution, take_and_lap, make_room);
  if (found == *file.digest) return;
  throw Error(Fault::corrupt, file.name,
              fmt::format("is not what its digest says: {}, {} expected", found.hex(), file.digest->hex()),
              "wdelta verify REPO names what is damaged");
}

}  // namespace wdelta
