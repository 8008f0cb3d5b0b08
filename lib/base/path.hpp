// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace wdelta {

/// Why `path` may not be a file's place in a checkpoint (wdelta-delta.5, "Deltas of directories"), or null when it may:
/// relative, parts separated by '/', none of them empty, ".", ".." or ".wdelta", no backslash, no control character,
/// valid UTF-8, at most 4,096 bytes.
const char* why_not_a_place(std::string_view path);

/// Throws corrupt, naming `object`, unless `path` may be a file's place.
void require_place(std::string_view path, const std::string& object);

bool is_utf8(std::string_view text);

}  // namespace wdelta
