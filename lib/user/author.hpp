// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "user/environment.hpp"

#include <string>

namespace wdelta {

/// Who pushes, and where: "user@host".
std::string author_in(const Environment& environment);

}  // namespace wdelta
