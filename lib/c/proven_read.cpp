// SPDX-License-Identifier: Apache-2.0
#include "c/proven_read.hpp"

#include "base/error.hpp"
#include "base/reader_digest.hpp"

namespace wdelta {

void read_proven(const ByteReader& file, const Digest& digest, const Execution& execution, const Taker& take) {
  const Digest found =
      digest_and_take(file, execution, [&](std::uint64_t offset, std::span<const std::uint8_t> bytes, StageLaps& laps) {
        take(offset, bytes);
        laps.lap(Stage::write, bytes.size());
      });
  if (found == digest) return;
  throw Error(Fault::corrupt, file.name(), "is not what its digest says", "run wdelta verify REPO");
}

}  // namespace wdelta
