// SPDX-License-Identifier: Apache-2.0
// What is said to people, on stderr.
#pragma once

#include <fmt/format.h>
#include <string>
#include <utility>

namespace wdelta::cmd {

/// Writes to stderr. That it takes nothing - a log on a full disk, a reader that has gone - is no failure: what a
/// command did is done all the same, and its exit status says so.
void say(const std::string& text);

template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say(fmt::format(format, std::forward<Args>(args)...));
}

/// Has stdin, stdout and stderr lead nowhere where they were closed: a file would be opened in their place, and get
/// what is printed into it. Writing to them fails as before. To be called before any file is opened. False, and errno
/// says why, where /dev/null cannot be opened.
bool keep_streams_apart();

}  // namespace wdelta::cmd
