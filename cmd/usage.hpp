// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace wdelta::cmd {

/// The name that someone who wrote `word` most likely meant, or empty when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

/// What is wrong with a command line that CLI11 refused, with a hint: the mistyped word first, if there is one.
Error usage_error(const CLI::App& app, const CLI::ParseError& error);
/// The same for a command that does not exist.
Error no_such_command(const CLI::App& app, const std::string& word);

}  // namespace wdelta::cmd
