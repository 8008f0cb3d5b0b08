// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace wdelta {

/// Bytes that this user may still write at `path`, which need not exist yet: what is reserved for root counts for root
/// only. Nothing when the file system does not say, or what it says cannot be.
std::optional<std::uint64_t> free_bytes_at(const std::filesystem::path& path);

/// Bytes that the files in a directory take on its disk, not counting those in directories below; 0 when it is not
/// there.
std::uint64_t taken_bytes_in(const std::filesystem::path& directory);
/// Whether two paths are, or will be, on one file system.
bool are_on_one_file_system(const std::filesystem::path& one, const std::filesystem::path& other);

/// Room for work that is about to begin.
struct Space {
  std::uint64_t needed_bytes = 0;
  std::optional<std::uint64_t> free_bytes;  ///< nothing: unknown
};
/// Throws local, naming `object`, when it is known that there is too little. A promise it is not: others write too.
void require_space(const std::string& object, const Space& space);
/// The same for the file system that `path` is, or will be, on.
void require_space_at(const std::filesystem::path& path, std::uint64_t needed_bytes);

}  // namespace wdelta
