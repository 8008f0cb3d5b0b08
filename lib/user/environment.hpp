// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace wdelta {

/// The value of a variable that the user has set; empty when it is not set. The library reads no environment: a program
/// gives it its own, others what they like.
using Environment = std::function<std::string(const char* name)>;

}  // namespace wdelta
