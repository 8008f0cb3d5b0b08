// SPDX-License-Identifier: Apache-2.0
// The list in a delta of directories: wdelta-delta(5), "Deltas of directories". Writer and reader.
#pragma once

#include "delta/description.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// How a directory delta has a file of the result.
enum class ListedAs { same, delta, file };

struct ListedFile {
  FileIdentity identity;
  bool executable = false;
  ListedAs as = ListedAs::same;
};

struct DeltaList {
  std::vector<ListedFile> files;     ///< all files of the result
  std::vector<std::string> removed;  ///< places that the base has and the result has not
};

inline constexpr const char* k_list_name = "wdelta.json";
inline constexpr const char* k_files_folder = "files";

std::string to_text(const DeltaList& list);
/// Whether the text says that it is such a list, sound or not.
bool claims_to_be_delta_list(std::string_view text);
/// Throws corrupt, naming `object`.
DeltaList delta_list_from(std::string_view text, const std::string& object);

}  // namespace wdelta
