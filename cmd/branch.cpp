// SPDX-License-Identifier: Apache-2.0
#include "ref_command.hpp"

namespace wdelta::cmd {

void add_branch(CLI::App& app, Context& context) { add_ref_command(app, context, RefKind::branch); }

}  // namespace wdelta::cmd
