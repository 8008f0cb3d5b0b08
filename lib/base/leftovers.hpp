// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"

#include <cerrno>
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

/// Tries names beside `path` until `make` has made one. Not mkostemp(3): its files are private, and an output has the
/// mode that any other new file has, which only open(2) and mkdir(2) can find out while other threads do the same.
template <typename Make>
std::filesystem::path make_beside(const std::filesystem::path& path, Make make) {
  for (;;) {
    std::filesystem::path temporary = temporary_name_for(path);
    if (make(temporary)) return temporary;
    if (errno != EEXIST) throw system_error(errno, path.string(), "create");
  }
}

/// Removes the temporary files and directories beside `path` that were going to be `path` when their programs were
/// killed. One that somebody works at, or that another user made, is left alone, and so is all where there are no locks
/// to tell. Never throws: at worst something is left.
void remove_leftovers_of(const std::filesystem::path& path) noexcept;

}  // namespace wdelta
