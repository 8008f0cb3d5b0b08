// SPDX-License-Identifier: Apache-2.0
#include "say.hpp"

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace wdelta::cmd {

void say(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);  // not buffered
}

bool keep_streams_apart() {
  for (;;) {
    // Takes the lowest number that is free. Only to be read, so that what is written fails.
    const int opened = open("/dev/null", O_RDONLY);
    if (opened < 0) return false;
    if (opened <= STDERR_FILENO) continue;
    close(opened);
    return true;
  }
}

}  // namespace wdelta::cmd
