// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace wdelta::cmd {

/// Who pushes, and where: "user@host".
std::string author();

}  // namespace wdelta::cmd
