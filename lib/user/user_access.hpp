// SPDX-License-Identifier: Apache-2.0
// What a user's variables, and the files that they name, say of places: on a network and on this machine.
#pragma once

#include "store/access.hpp"
#include "user/environment.hpp"

#include <filesystem>
#include <string>

namespace wdelta {

/// How to reach the store at `location`, and models of the Hub that a repository there refers to. Credentials of S3 are
/// looked up for it only; a token that cannot be read is an error for a bucket of the Hub only. `network`: what is not
/// said by variables.
Access access_to(const std::string& location, const NetworkOptions& network, const Environment& environment);

/// WDELTA_STATE_DIR, else as XDG has it. Empty where nothing says where.
std::filesystem::path state_directory(const Environment& environment);

}  // namespace wdelta
