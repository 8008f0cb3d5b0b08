// SPDX-License-Identifier: Apache-2.0
#include "user/author.hpp"

#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <pwd.h>
#include <unistd.h>

namespace wdelta {

namespace {

// Not getpwuid(): it loads shared libraries of the very glibc it was built with, which a static program may not find.
std::string user_name(const Environment& environment) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> users(std::fopen("/etc/passwd", "re"), std::fclose);
  while (const passwd* user = users ? fgetpwent(users.get()) : nullptr) {
    if (user->pw_uid == geteuid()) return user->pw_name;
  }
  // Users of a directory service are in no file.
  const std::string name = environment("USER");
  return name.empty() ? std::to_string(geteuid()) : name;
}

}  // namespace

std::string author_in(const Environment& environment) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}@{}", user_name(environment), host);
}

}  // namespace wdelta
