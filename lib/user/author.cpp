// SPDX-License-Identifier: Apache-2.0
#include "user/author.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <pwd.h>
#include <unistd.h>
#include <vector>

namespace wdelta {

namespace {

// Not getpwuid(): it loads shared libraries of the very glibc it was built with, which a static program may not find.
// Not fgetpwent() either: all threads of a process would share what it returns.
std::string user_name(const Environment& environment) {
  constexpr std::size_t k_longest_line_bytes = std::size_t{1} << 20;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> users(std::fopen("/etc/passwd", "re"), std::fclose);
  std::vector<char> line(1024);
  while (users) {
    passwd user{};
    passwd* found = nullptr;
    const int failed = fgetpwent_r(users.get(), &user, line.data(), line.size(), &found);
    if (failed == ERANGE && line.size() < k_longest_line_bytes) {
      line.resize(line.size() * 2);
    } else if (failed != 0 || found == nullptr) {
      break;
    } else if (found->pw_uid == geteuid()) {
      return found->pw_name;
    }
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
