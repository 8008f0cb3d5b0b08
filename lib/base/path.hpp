// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// Why `path` may not be a file's place in a checkpoint (wdelta-delta.5, "Deltas of directories"), or null when it may:
/// relative, parts separated by '/', none of them empty, ".", ".." or ".wdelta" (in any case), no backslash, no control
/// character, valid UTF-8, at most 4,096 bytes.
const char* why_not_a_place(std::string_view path);

/// Whether `inner` is `outer` or lies below it, through symlinks too, as far as the two exist.
bool lies_within(const std::filesystem::path& inner, const std::filesystem::path& outer);

/// Throws corrupt, naming `object`, unless `path` may be a file's place.
void require_place(std::string_view path, const std::string& object);

bool is_utf8(std::string_view text);

struct Collision {
  std::string_view first;
  std::string_view second;
};
/// Two of the paths that cannot lie side by side on every file system: equal, one a directory of the other, or with a
/// part spelled in another case of ASCII letters, where some file systems would take one for the other. At least one
/// pair of all there are; nothing when there is none.
std::optional<Collision> find_collision(std::vector<std::string_view> paths);

}  // namespace wdelta
