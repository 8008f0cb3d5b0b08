// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace wdelta::cmd {

/// Prints a part of the manual that the program knows best, as mdoc: `wdelta manual options [COMMAND]`, `commands` or
/// `exit-codes`. tests/check_manual.py puts it into the pages (`make manual`).
int print_manual(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace wdelta::cmd
