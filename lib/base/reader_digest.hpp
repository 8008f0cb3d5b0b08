// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/output_file.hpp"
#include "base/reader.hpp"
#include "base/stage_clock.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace wdelta {

/// BLAKE3 of all bytes of `reader`, each read once, on all threads. Reports them to the progress.
Digest digest_of(const ByteReader& reader, const Execution& execution);
/// Takes a piece of a reader, and laps the stage that it spent its time on; several threads call it at a time.
using PieceTaker = std::function<void(std::uint64_t offset, std::span<const std::uint8_t> bytes, StageLaps& laps)>;
/// Memory that one thread reads pieces into: so many bytes of it.
using PieceRoom = std::function<std::span<std::uint8_t>(std::size_t size_bytes)>;
/// The same, and hands each piece over while it is in the cache: in memory that each thread makes by `make_room` where
/// there is one.
Digest digest_and_take(const ByteReader& reader, const Execution& execution, const PieceTaker& take,
                       const std::function<PieceRoom()>& make_room = {});
/// The same, and copies them into `copy` on the way.
Digest copy_and_digest(const ByteReader& reader, OutputFile& copy, const Execution& execution);

}  // namespace wdelta
