// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace wdelta {

/// What to do about a name that is taken where a stray file goes.
enum class Taken { refuse, leave };

/// Takes along into `to` whatever `from` holds below it besides `known` places and what wdelta keeps there: a user's
/// notes, repositories of git, empty directories. Hard links, so that a program that is writing to one goes on writing
/// to it; copies where there are none. Throws local for what stands in the way, or cannot be copied.
void take_strays_along(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::set<std::string>& known, Taken taken);

}  // namespace wdelta
