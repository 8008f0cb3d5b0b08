// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace wdelta::cmd {

/// Whether an output at `path` would take the place of `input`, or become one of its files where that is a directory.
bool is_or_lies_in(const std::filesystem::path& path, const std::filesystem::path& input);

/// Throws usage for "-": with other programs that is stdout, which does not get the whole of a file or nothing.
void require_file_name(const std::string& output);

}  // namespace wdelta::cmd
