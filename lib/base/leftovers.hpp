// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace wdelta {

/// Whether a file of that name is one that OutputFile or OutputDirectory makes before it has its name.
bool is_temporary_name(std::string_view name);

/// A new one of these for what is going to be `path`, beside it.
std::filesystem::path temporary_name_for(const std::filesystem::path& path);

/// Says of a temporary file or directory, open as `fd`, that somebody works at it as long as it is open: locks it, as
/// far as the file system has locks. False, with EEXIST, when it was taken for a leftover before this came to pass:
/// another name has to be tried.
bool claim_temporary(int fd);

/// Removes the temporary files and directories beside `path` that were going to be `path` when their programs were
/// killed. One that somebody works at, or that another user made, is left alone, and so is all where there are no locks
/// to tell. Never throws: at worst something is left.
void remove_leftovers_of(const std::filesystem::path& path) noexcept;

}  // namespace wdelta
