// SPDX-License-Identifier: Apache-2.0
// The command line as CLI11 knows it, read by what is made from it: completions, lists of the manual, hints.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace wdelta::cmd {

/// The commands that --help lists, in its order.
std::vector<const CLI::App*> commands_of(const CLI::App& app);
/// The command of that name, or null.
const CLI::App* command_named(const CLI::App& app, const std::string& name);

/// Options with a name, and arguments, in the order of the help.
std::vector<const CLI::Option*> options_of(const CLI::App& app);
std::vector<const CLI::Option*> arguments_of(const CLI::App& app);

/// "-o" and "--output", the short ones first.
std::vector<std::string> names_of(const CLI::Option& option);
/// What the help calls the value of an option, or an argument: "FILE". Empty for a flag.
std::string value_name_of(const CLI::Option& option);
/// The values that CLI::IsMember allows; empty when it is not so bound.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace wdelta::cmd
