// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "context.hpp"

#include <string>
#include <vector>

namespace wdelta::cmd {

/// `wdelta complete -- WORD...`, for the scripts in completions/: prints what may stand in place of the last word, one
/// candidate a line, a description behind a tab. An empty candidate asks the shell for "files" or "directories".
/// Candidates are whole words; those that do not begin as the last word does are for the shell to drop. Never fails.
int complete(const CLI::App& app, const std::vector<std::string>& words, const Context& context);

}  // namespace wdelta::cmd
