// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/output_file.hpp"
#include "store/http/remote_reader.hpp"

#include <filesystem>

namespace wdelta {

/// Fetches all of an object into `output`, in several requests at a time, each byte written and hashed once, as it
/// comes; returns its digest. Until all is there it lies in a spool in `directory`, so that what a killed program
/// leaves is gone on with; then the spool becomes the output's content, by a new name where the two are on one file
/// system. Reports to the progress what arrives; memory is a page of 1 MiB for each transfer.
Digest download(const FoundObject& found, OutputFile& output, const std::filesystem::path& directory,
                const Execution& transfers);

}  // namespace wdelta
