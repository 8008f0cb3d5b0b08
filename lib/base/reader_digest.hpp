// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/file.hpp"
#include "base/reader.hpp"

namespace wdelta {

/// BLAKE3 of all bytes of `reader`, each read once, on all threads. Reports them to the progress.
Digest digest_of(const ByteReader& reader, const Execution& execution);
/// The same, and copies them into `copy` on the way.
Digest copy_and_digest(const ByteReader& reader, OutputFile& copy, const Execution& execution);

}  // namespace wdelta
