// SPDX-License-Identifier: Apache-2.0
#include "repo/stray_files.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/output_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

void copy_stray(const fs::path& from, const fs::path& to) {
  const File file = File::open(from);
  OutputFile copy(to);
  if (!copy.clone(file)) {
    std::vector<std::uint8_t> bytes(std::size_t{1} << 20);
    for (std::uint64_t offset = 0; offset < file.size_bytes(); offset += bytes.size()) {
      bytes.resize(std::min<std::uint64_t>(bytes.size(), file.size_bytes() - offset));
      file.read_at(offset, bytes);
      copy.append(bytes);
    }
  }
  file.check_unchanged();
  copy.commit(Overwrite::no_rivals, Durability::synced);
  struct stat status {};
  if (::stat(from.c_str(), &status) != 0) throw system_error(errno, from.string(), "stat");
  const std::array<timespec, 2> times = {status.st_atim, status.st_mtim};
  if (::chmod(to.c_str(), status.st_mode & 07777) != 0 || ::utimensat(AT_FDCWD, to.c_str(), times.data(), 0) != 0) {
    throw system_error(errno, to.string(), "set mode and times");
  }
}

void take_along(const fs::path& from, const fs::path& to) {
  // Not std::filesystem: a symlink goes along itself.
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), 0) == 0) return;
  const fs::file_type type = fs::symlink_status(from).type();
  if (type == fs::file_type::symlink) {
    fs::copy_symlink(from, to);
  } else if (type == fs::file_type::regular) {
    copy_stray(from, to);
  } else if (type != fs::file_type::not_found) {
    throw Error(Fault::local, from.string(), "is no file, so that it cannot be taken along", "pull without --swap");
  }
}

struct Walk {
  fs::path from;
  fs::path to;
  const std::set<std::string>* known;
  Taken taken;

  void make_folder(const fs::path& relative) const {
    if (relative.empty() || is_there(to / relative)) return;
    make_folder(relative.parent_path());
    const fs::perms mode = fs::status(from / relative).permissions();
    fs::create_directory(to / relative);
    fs::permissions(to / relative, mode);
  }

  void operator()(const fs::path& relative) const {
    if (fs::is_empty(from / relative)) return make_folder(relative);
    for (const fs::directory_entry& entry : fs::directory_iterator(from / relative)) {
      const fs::path place = relative / entry.path().filename();
      if (place == ".wdelta" || known->contains(place.generic_string())) continue;
      if (fs::is_directory(entry.symlink_status())) {
        (*this)(place);
      } else if (!is_there(to / place)) {
        make_folder(relative);
        take_along(entry.path(), to / place);
      } else if (taken == Taken::refuse) {
        throw Error(Fault::local, entry.path().string(), "is in the way of the commit, and not known to be of any",
                    "move it away");
      }
    }
  }
};

}  // namespace

void take_strays_along(const fs::path& from, const fs::path& to, const std::set<std::string>& known, Taken taken) {
  Walk{from, to, &known, taken}({});
}

}  // namespace wdelta
