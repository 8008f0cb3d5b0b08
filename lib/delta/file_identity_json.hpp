// SPDX-License-Identifier: Apache-2.0
// A file's identity in the documents that deltas and repositories keep.
#pragma once

#include "base/json_fwd.hpp"
#include "delta/file_identity.hpp"

#include <string>

namespace wdelta {

Json to_json(const FileIdentity& file);
/// Throws corrupt, naming `object`.
FileIdentity file_identity_from(const ParsedJson& json, const std::string& object);

}  // namespace wdelta
