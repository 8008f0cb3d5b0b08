// SPDX-License-Identifier: Apache-2.0
// What `branch` and `tag` have in common.
#pragma once

#include "context.hpp"
#include "repo/refs.hpp"

namespace wdelta::cmd {

/// The arguments and the work of a command that lists, makes or moves names of this kind.
void add_ref_command(CLI::App& app, Context& context, RefKind kind);

}  // namespace wdelta::cmd
