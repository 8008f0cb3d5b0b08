// SPDX-License-Identifier: Apache-2.0
// wdelta.json, which makes a place a repository: wdelta-repository(5), "Settings".
#pragma once

#include "store/store.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wdelta {

inline constexpr const char* k_settings_key = "wdelta.json";
inline constexpr std::uint64_t k_longest_settings = std::uint64_t{1} << 20;

struct RepositorySettings {
  std::string id;                  ///< random hexadecimal digits, drawn when the repository was made
  std::optional<Contest> contest;  ///< set: entries of branches and tags are contested
};

/// Those of a new repository.
RepositorySettings new_settings(const std::optional<Contest>& contest);
std::string to_text(const RepositorySettings& settings);
/// Throws corrupt, naming `object`; unsupported for what only a newer program understands.
RepositorySettings settings_from(std::string_view text, const std::string& object);
/// Nullopt when the store has none.
std::optional<RepositorySettings> read_settings(const Store& store);

}  // namespace wdelta
