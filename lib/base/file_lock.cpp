// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.hpp"

#include "base/error.hpp"
#include "base/system_call.hpp"

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace wdelta {

FileLock::FileLock(const std::filesystem::path& path, std::string_view waiting, const Execution& execution)
    : path_(path),
      fd_(uninterrupted(
          [&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); })),
      owner_(::getpid()) {
  if (!fd_ && errno == ELOOP) throw Error(Fault::local, path.string(), "is a symlink: nothing is written through it");
  if (!fd_) throw system_error(errno, path.string(), "open lock");
  for (bool noted = false; ::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0;) {
    if (errno == EINTR) continue;
    const bool is_without = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == ENOLCK;
    if (!is_without && errno != EWOULDBLOCK) throw system_error(errno, path.string(), "lock");
    if (is_without) {
      execution.progress->note(
          fmt::format("{}: this file system has no locks: two at once here would disturb each other", path.string()));
      held_ = false;
      return;
    }
    if (!noted) execution.progress->note(waiting);
    noted = true;
    execution.check_stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

FileLock::FileLock(FileLock&& other) noexcept = default;

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this == &other) return *this;
  let_go();
  path_ = std::move(other.path_);
  fd_ = std::move(other.fd_);
  held_ = other.held_;
  owner_ = other.owner_;
  return *this;
}

// A lock belongs to the open file, which a child that was forked meanwhile has open too (CLOEXEC closes it in programs
// alone): closing ours would leave it locked until that child ends. The child, in turn, takes no lock from its parent.
void FileLock::let_go() {
  if (fd_ && held_ && owner_ == ::getpid()) uninterrupted([this] { return ::flock(fd_.get(), LOCK_UN); });
}

bool FileLock::is_in_place() const {
  struct stat locked {};
  struct stat there {};
  return ::fstat(fd_.get(), &locked) == 0 && ::stat(path_.c_str(), &there) == 0 && locked.st_ino == there.st_ino &&
         locked.st_dev == there.st_dev;
}

}  // namespace wdelta
