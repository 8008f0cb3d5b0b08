// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"
#include "base/reader_digest.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace wdelta {

/// Takes a stretch of a file; several threads call it at a time.
using Taker = std::function<void(std::uint64_t offset, std::span<const std::uint8_t> bytes)>;

/// A file of a commit, and what it must be.
struct ProvableFile {
  const ByteReader* bytes;
  const Digest* digest;
  std::string name;  ///< for messages: the reader's own is that of one of the objects that the file is made of
};

/// Reads all of a file once, hands it over in pieces, and throws corrupt at the end unless it has its digest. Reports
/// to the progress. For `make_room` see digest_and_take().
void read_proven(const ProvableFile& file, const Execution& execution, const Taker& take,
                 const std::function<PieceRoom()>& make_room = {});

}  // namespace wdelta
