// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace wdelta::cmd {

/// Whether an output at `path` would take the place of `input`, or become one of its files where that is a directory.
bool is_or_lies_in(const std::filesystem::path& path, const std::filesystem::path& input);

}  // namespace wdelta::cmd
