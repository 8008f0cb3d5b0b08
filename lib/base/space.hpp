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
