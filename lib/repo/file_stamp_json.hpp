// SPDX-License-Identifier: Apache-2.0
// A file's stamp in the documents that push and pull keep.
#pragma once

#include "base/file.hpp"
#include "base/json_fwd.hpp"

#include <string>

namespace wdelta {

Json to_json(const FileStamp& stamp);
/// Throws corrupt, naming `object`.
FileStamp file_stamp_from(const ParsedJson& json, const std::string& object);

}  // namespace wdelta
