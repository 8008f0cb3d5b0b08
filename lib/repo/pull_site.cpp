// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_site.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/moment.hpp"
#include "repo/pull_state.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

bool is_there_at_all(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

fs::path own_name(const fs::path& directory) {
  std::error_code error;
  fs::path path = fs::weakly_canonical(fs::absolute(directory), error);
  if (error) path = fs::absolute(directory).lexically_normal();
  while (path.has_relative_path() && !path.has_filename()) path = path.parent_path();  // DIR/ means DIR
  return path;
}

bool is_mount_point(const fs::path& path) {
  struct statx status {};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &status) == 0 &&
         (status.stx_attributes & status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
}

// What is mounted in it would go away with the old one, and be emptied with it.
void require_exchangeable(const fs::path& directory) {
  const auto require = [](const fs::path& path) {
    if (!is_mount_point(path)) return;
    throw Error(Fault::local, path.string(), "is a mount point, which cannot be exchanged for another directory",
                "pull without --swap, or name a directory below it");
  };
  require(directory);
  std::error_code not_there;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory, not_there)) {
    if (fs::is_directory(entry.symlink_status())) require(entry.path());
  }
}

// Whether there is nothing in it but a lock, which nobody misses.
bool is_unused(const fs::path& directory) {
  const auto holds_only = [](const fs::path& folder, const char* name) {
    return std::ranges::all_of(fs::directory_iterator(folder),
                               [&](const fs::directory_entry& entry) { return entry.path().filename() == name; });
  };
  return holds_only(directory, ".wdelta") &&
         (!is_there_at_all(pull_folder(directory)) || holds_only(pull_folder(directory), "lock"));
}

bool remove_if_unused(const fs::path& directory) {
  if (!is_unused(directory)) return false;
  ::unlink(pull_lock(directory).c_str());
  ::rmdir(pull_folder(directory).c_str());
  return ::rmdir(directory.c_str()) == 0;
}

bool is_complete(const fs::path& directory) try {
  const PullState state = load_pull_state(directory);
  return state.commit && state.expected.empty();
} catch (const Error&) {
  return false;
}

// Nothing when the directory vanished meanwhile.
std::optional<FileLock> lock_in(const fs::path& directory, const Execution& execution) try {
  return FileLock(pull_lock(directory), "waiting for another pull into this directory", execution);
} catch (const Error& error) {
  if (error.fault() != Fault::not_found) throw;
  return std::nullopt;
}

void rename_or_throw(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw system_error(errno, to.string(), "rename into place");
}

// Of what only pulls make: neither a file nor a symlink, through which nothing is written.
void require_own_directory(const fs::path& path) {
  std::error_code ignored;
  const fs::file_type type = fs::symlink_status(path, ignored).type();
  if (type == fs::file_type::directory || type == fs::file_type::not_found) return;
  throw Error(Fault::local, path.string(), "is no directory of a pull", "move it away");
}

// What is private stays so, also while it is built. The owner can be kept by root only.
void take_mode_and_owner(const fs::path& from, const fs::path& to) {
  struct stat status {};
  if (::stat(from.c_str(), &status) != 0) throw system_error(errno, from.string(), "stat");
  if (::chown(to.c_str(), status.st_uid, status.st_gid) != 0 && errno != EPERM && errno != EINVAL) {
    throw system_error(errno, to.string(), "set owner");
  }
  if (::chmod(to.c_str(), status.st_mode & 07777) != 0) throw system_error(errno, to.string(), "set mode");
}

}  // namespace

PullSite::PullSite(const fs::path& directory, PullWay way, const Execution& execution)
    : directory_(own_name(directory)),
      way_(way),
      execution_(&execution),
      next_(beside("newdir")),
      old_(beside("olddir")) {
  try {
    if (way_ == PullWay::swap) {
      make_directories(directory_.parent_path());
      require_exchangeable(directory_);
    }
    while (!try_to_lock()) {
      lock_.reset();
      next_lock_.reset();
      execution.check_stop();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    remove_put_away();
    if (way_ == PullWay::swap && is_there()) take_mode_and_owner(directory_, next_);
  } catch (...) {
    leave();
    throw;
  }
}

PullSite::~PullSite() { leave(); }

void PullSite::leave() noexcept {
  try {
    if (made_directory_ && lock_) remove_if_unused(directory_);  // under the lock: who waits for it makes it again
    if (next_lock_) remove_away(next_, next_lock_);
  } catch (const std::exception& error) {
    execution_->progress->note(fmt::format("{}: {}", next_.string(), error.what()));
  }
}

fs::path PullSite::beside(const std::string& suffix) const {
  return directory_.parent_path() / fmt::format(".{}.wdelta-{}", directory_.filename().string(), suffix);
}

// Everything here may change under us until the locks are held, so it is looked at again then; whether it still was as
// it was.
bool PullSite::try_to_lock() {
  if (is_there_at_all(old_) && !finish_exchange()) return false;
  const bool was_there = is_there_at_all(directory_);
  if (was_there || way_ == PullWay::in_place) {
    if (!was_there) made_directory_ = true;
    make_directories(pull_folder(directory_));
    lock_ = lock_in(directory_, *execution_);
    if (!lock_) return false;
  }
  if (way_ == PullWay::swap && !lock_sibling()) return false;
  if (way_ == PullWay::in_place && is_there_at_all(next_)) {
    try {
      if (!lock_sibling()) return false;
      remove_away(next_, next_lock_);
    } catch (const Error& error) {
      if (error.fault() == Fault::interrupted) throw;
      next_lock_.reset();  // it stands in nobody's way: somebody else's, maybe
      execution_->progress->note(fmt::format("{}: {}", error.object(), error.what()));
    }
  }
  return !is_there_at_all(old_) && is_there_at_all(directory_) == lock_.has_value() && (!lock_ || lock_->is_in_place());
}

// What lies there already is of a pull that was killed, before the exchange or behind it: nobody needs it either way.
bool PullSite::lock_sibling() {
  require_own_directory(next_);
  // Private until it has the mode of the directory that it is to replace.
  const bool made = ::mkdir(next_.c_str(), lock_ ? 0700 : 0777) == 0;
  if (!made && errno != EEXIST) throw system_error(errno, next_.string(), "create");
  const auto make_folder = [&] {
    std::error_code error;
    fs::create_directory(pull_folder(next_), error);
    // Vanished: somebody removed it, and all is looked at again.
    if (error && error != std::errc::no_such_file_or_directory)
      throw system_error(error.value(), pull_folder(next_).string(), "create");
  };
  NoProgress silent;
  Execution execution = *execution_;
  if (lock_ && !lock_->is_held()) execution.progress = &silent;  // that there are no locks here was said
  try {
    make_folder();
    next_lock_ = lock_in(next_, execution);
  } catch (const Error&) {
    std::error_code ignored;
    if (made) fs::remove_all(next_, ignored);
    throw;
  }
  if (!next_lock_ || !next_lock_->is_in_place()) return false;
  if (way_ == PullWay::in_place || is_unused(next_)) return true;
  remove_away(next_, next_lock_);
  return false;
}

// A pull is between its two renames, or was killed there or a little later. Whether the directory can be locked now.
bool PullSite::finish_exchange() {
  require_own_directory(old_);
  std::error_code vanished;
  fs::create_directory(pull_folder(old_), vanished);
  auto lock = lock_in(old_, *execution_);  // waits for one that is alive
  if (!lock || !lock->is_in_place()) return !is_there_at_all(old_);
  if (is_there_at_all(directory_) && is_there_at_all(next_) && !remove_if_unused(directory_)) {
    throw Error(Fault::local, directory_.string(),
                fmt::format("was made anew after a pull was killed that was exchanging it: {} is what it was before",
                            old_.string()),
                "move one of the two away");
  }
  if (!is_there_at_all(directory_)) rename_or_throw(is_complete(next_) ? next_ : old_, directory_);
  sync_directory(directory_.parent_path());
  if (is_there_at_all(old_)) remove_away(old_, lock);
  return true;
}

void PullSite::exchange() {
  if (!is_there()) {
    // There is no old one. Another pull, which did not know of this one, may have made the directory since.
    if (::rename(next_.c_str(), directory_.c_str()) != 0) {
      if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) {
        throw system_error(errno, directory_.string(), "rename into place");
      }
      throw Error(Fault::conflict, directory_.string(), "was made by something else meanwhile", "run this again");
    }
  } else if (::renameat2(AT_FDCWD, next_.c_str(), AT_FDCWD, directory_.c_str(), RENAME_EXCHANGE) != 0) {
    if (errno != ENOSYS && errno != EINVAL && errno != EOPNOTSUPP) {
      throw system_error(errno, directory_.string(), "exchange");
    }
    exchange_by_two_renames();
  }
  std::swap(lock_, next_lock_);  // as the files that they lock
  sync_directory(directory_.parent_path());
}

// Killed before the first rename: DIR is as it was. Between the first and the second, DIR is not there, both others are
// complete, and the next pull does the second. Behind it, DIR is new, and the next pull removes the old one.
void PullSite::exchange_by_two_renames() {
  rename_or_throw(directory_, old_);
  if (::rename(next_.c_str(), directory_.c_str()) != 0) {
    const int code = errno;
    // In between, a pull that has not looked for old_ yet may have made the directory to lock it.
    if (!remove_if_unused(directory_) || ::rename(next_.c_str(), directory_.c_str()) != 0) {
      ::rename(old_.c_str(), directory_.c_str());
      throw system_error(code, directory_.string(), "rename into place");
    }
  }
  rename_or_throw(old_, next_);  // as an exchange leaves it
}

// Under a name of its own first, so that the old one is free at once: over NFS a directory can not be removed while
// somebody has a file in it open, be it only our own lock.
void PullSite::remove_away(const fs::path& path, std::optional<FileLock>& lock_in_it) {
  if (::rename(path.c_str(), beside("rm" + random_hex(4)).c_str()) != 0) {
    // A full disk may lack the room for a name.
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw system_error(error.value(), path.string(), "remove");
  }
  lock_in_it.reset();
  remove_put_away();
}

void PullSite::remove_put_away() {
  std::error_code error;
  const std::string prefix = beside("rm").filename().string();
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_.parent_path(), error)) {
    const std::string name = entry.path().filename().string();
    if (name.size() != prefix.size() + 4 || !name.starts_with(prefix)) continue;
    fs::remove_all(entry.path(), error);
    if (error) {
      execution_->progress->note(
          fmt::format("{}: {}: the next pull removes it", entry.path().string(), error.message()));
    }
  }
}

}  // namespace wdelta
