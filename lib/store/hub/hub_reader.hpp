// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "store/http/read_ahead.hpp"
#include "store/hub/hub_client.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace wdelta {

/// Opens a file of a bucket; null when there is none. What is small comes with the first answer, the rest as it is
/// read, through files in `spool_directory`.
std::shared_ptr<const ByteReader> open_hub_file(std::shared_ptr<const HubClient> client, const std::string& path,
                                                const std::filesystem::path& spool_directory,
                                                std::shared_ptr<ReadAhead> read_ahead);

}  // namespace wdelta
