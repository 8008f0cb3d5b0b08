// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"

namespace wdelta {

/// Copies `file` into `copy` in the cheapest way that the file system has: shared bytes, a copy by the kernel, or one
/// through memory. Returns the digest of what arrived, which it reads again: some file systems copy wrongly and say
/// nothing. Reports bytes to the progress.
Digest kernel_copy(const File& file, OutputFile& copy, const Execution& execution);

}  // namespace wdelta
