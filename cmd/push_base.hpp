// SPDX-License-Identifier: Apache-2.0
// The part of push that is about --base: a model of the Hub to begin with, and copies to repair from.
#pragma once

#include "base/json_fwd.hpp"
#include "context.hpp"
#include "repo/hub_base.hpp"

#include <optional>
#include <string>
#include <vector>

namespace wdelta::cmd {

struct BaseArguments {
  std::string base;
  std::vector<std::string> copies;
  bool reference = false;
  bool repair = false;
};

/// Returns --repair, which excludes those of the others that have to do with a commit to be made.
Declared add_base_options(CLI::App& app, BaseArguments& arguments);

/// What --base asks for when there is nothing to repair; nothing without it. `filter` is that of the checkpoint.
std::optional<HubBaseOptions> base_options(const BaseArguments& arguments, const PathFilter& filter);
Json to_json(const HubBaseReport& report);
/// A line for people, on stderr.
void print_report(const HubBaseReport& report);

/// push --repair: restores what the repository at `location`, or its commit, lost.
int run_repair(const BaseArguments& arguments, const std::string& location, Context& context);

}  // namespace wdelta::cmd
