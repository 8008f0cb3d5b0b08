// SPDX-License-Identifier: Apache-2.0
#include "base/output_directory.hpp"

#include "base/error.hpp"
#include "base/leftovers.hpp"
#include "base/output_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace wdelta {

namespace {

// All the work would be done before the system says so.
void require_replaceable_directory(const std::filesystem::path& path) {
  const auto refuse = [&](const char* what) {
    return Error(Fault::local, path.string(), what, "name a directory that does not exist");
  };
  const std::filesystem::path name = path.filename();
  constexpr std::size_t k_longest_name = 255;
  if (name == "." || name == "..") throw refuse("is no name that a directory can be given");
  if (name.native().size() > k_longest_name) throw refuse("has a longer name than file systems take");
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (S_ISLNK(status.st_mode)) throw refuse("is a symlink");
  struct stat around {};
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (::stat(parent.c_str(), &around) == 0 && around.st_dev != status.st_dev) throw refuse("is a mount point");
}

}  // namespace

OutputDirectory::OutputDirectory(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(path_, error);
  if (std::filesystem::exists(path_, error) && (!is_directory || !std::filesystem::is_empty(path_, error))) {
    throw Error(Fault::local, path_.string(), "exists and is not an empty directory",
                "name a directory that does not exist");
  }
  while (path_.has_relative_path() && !path_.has_filename()) path_ = path_.parent_path();  // DIR/ means DIR
  require_replaceable_directory(path_);
  remove_leftovers_of(path_);
  temporary_ = make_beside(path_, [&](const std::filesystem::path& temporary) {
    if (::mkdir(temporary.c_str(), 0777) != 0) return false;
    claim_ = Fd(::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return !claim_ || claim_temporary(claim_.get());
  });
  struct stat replaced {};
  if (::stat(path_.c_str(), &replaced) != 0) return;
  const bool has_group = ::chown(temporary_.c_str(), static_cast<uid_t>(-1), replaced.st_gid) == 0;
  const mode_t mode = has_group ? replaced.st_mode : without_group(replaced.st_mode);
  const mode_t permissions = (mode & 07777) | S_IRWXU;  // it is going to be filled
  if (::chmod(temporary_.c_str(), permissions) == 0) return;
  const int code = errno;
  ::rmdir(temporary_.c_str());  // no destructor does it where the constructor throws
  throw system_error(code, path_.string(), "set mode");
}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

Error OutputDirectory::as_named(const Error& error) const {
  const std::string inside = (temporary_ / "").string();
  if (!error.object().starts_with(inside)) return error;
  return {error.fault(), (path_ / error.object().substr(inside.size())).string(), error.what(), error.hint()};
}

void OutputDirectory::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw system_error(errno, path_.string(), "rename into place");
  temporary_.clear();
}

}  // namespace wdelta
