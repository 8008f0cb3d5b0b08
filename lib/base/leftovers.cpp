// SPDX-License-Identifier: Apache-2.0
#include "base/leftovers.hpp"

#include "base/file.hpp"
#include "base/moment.hpp"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view k_mark = ".wdelta-";
constexpr unsigned k_random_digits = 6;

bool are_random_digits(std::string_view digits) {
  return digits.size() == k_random_digits && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

fs::path directory_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : "."; }

// A name that is as long as one may be leaves no room for more.
std::string beginning_of_temporary(const fs::path& path) {
  constexpr std::size_t k_most_of_name = 200;
  return "." + path.filename().string().substr(0, k_most_of_name) + std::string(k_mark);
}

}  // namespace

bool is_temporary_name(std::string_view name) {
  const std::size_t mark = name.rfind(k_mark);
  return name.starts_with('.') && mark != std::string_view::npos && mark > 0 &&
         are_random_digits(name.substr(mark + k_mark.size()));
}

fs::path temporary_name_for(const fs::path& path) {
  return directory_of(path) / (beginning_of_temporary(path) + random_hex(k_random_digits));
}

bool claim_temporary(int fd) {
  // Without waiting: whoever has the lock is about to remove it.
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  struct stat status {};
  if (locked && (::fstat(fd, &status) != 0 || status.st_nlink > 0)) return true;
  errno = EEXIST;
  return false;
}

namespace {

bool is_abandoned(const Fd& fd) {
  struct stat status {};
  return fd && ::fstat(fd.get(), &status) == 0 && status.st_uid == ::geteuid() &&
         ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0;
}

}  // namespace

void remove_leftovers_of(const fs::path& path) noexcept try {
  const std::string prefix = beginning_of_temporary(path);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_of(path), error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !are_random_digits(std::string_view(name).substr(prefix.size()))) continue;
    const fs::file_type type = entry.symlink_status(error).type();
    // A lock over NFS wants a file that is open for writing.
    const int flags = type == fs::file_type::regular ? O_RDWR : O_RDONLY | O_DIRECTORY;
    const Fd fd(::open(entry.path().c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (is_abandoned(fd)) fs::remove_all(entry.path(), error);
  }
} catch (...) {
}

}  // namespace wdelta
