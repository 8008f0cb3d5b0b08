// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"

#include <cstdint>
#include <functional>
#include <span>

namespace wdelta {

/// Takes a stretch of a file; several threads call it at a time.
using Taker = std::function<void(std::uint64_t offset, std::span<const std::uint8_t> bytes)>;

/// Reads all of a file once, hands it over in pieces, and throws corrupt at the end unless it has `digest`. Reports to
/// the progress.
void read_proven(const ByteReader& file, const Digest& digest, const Execution& execution, const Taker& take);

}  // namespace wdelta
