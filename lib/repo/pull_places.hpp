// SPDX-License-Identifier: Apache-2.0
// Places in a directory that pull writes to. Nothing is written or removed through a symlink.
#pragma once

#include <filesystem>
#include <string>

namespace wdelta {

/// The path of `place` below `directory`, the directories on the way made. Throws local when one of them is a symlink,
/// or when a directory that holds files lies at the place itself.
std::filesystem::path real_place(const std::filesystem::path& directory, const std::string& place);
/// Whether `inner` could only be there if `outer` were a directory around it.
bool lies_in(const std::string& inner, const std::string& outer);
bool goes_through_symlink(const std::filesystem::path& directory, const std::string& place);
/// Removes a file, and the directories that are empty without it.
void remove_place(const std::filesystem::path& directory, const std::string& place);
/// Removes the directories that `place` was in, as far as they are empty now.
void remove_empty_parents(const std::filesystem::path& directory, const std::string& place);

}  // namespace wdelta
