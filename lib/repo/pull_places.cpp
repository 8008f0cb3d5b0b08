// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_places.hpp"

#include "base/error.hpp"
#include "base/file.hpp"

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// Removes a directory that holds nothing but directories; whether it did.
bool remove_hollow(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.symlink_status(error).type() != fs::file_type::directory || !remove_hollow(entry.path())) return false;
  }
  return !error && fs::remove(directory, error);
}

}  // namespace

bool lies_in(const std::string& inner, const std::string& outer) {
  return inner.size() > outer.size() && inner.starts_with(outer) && inner[outer.size()] == '/';
}

fs::path real_place(const fs::path& directory, const std::string& place) {
  fs::path path = directory;
  const fs::path relative(place);
  for (const fs::path& part : relative.parent_path()) {
    path /= part;
    if (fs::is_symlink(fs::symlink_status(path))) {
      throw Error(Fault::local, path.string(), "is a symlink in the way: nothing is written through it");
    }
  }
  make_directories(path);
  path /= relative.filename();
  // A pull that was killed may have emptied a directory without removing it.
  if (fs::is_directory(fs::symlink_status(path)) && !remove_hollow(path)) {
    throw Error(Fault::local, path.string(), "is a directory, a file belongs there");
  }
  return path;
}

bool goes_through_symlink(const fs::path& directory, const std::string& place) {
  fs::path path = directory;
  for (const fs::path& part : fs::path(place).parent_path()) {
    path /= part;
    if (fs::is_symlink(fs::symlink_status(path))) return true;
  }
  return false;
}

void remove_empty_parents(const fs::path& directory, const std::string& place) {
  for (fs::path parent = fs::path(place).parent_path(); !parent.empty(); parent = parent.parent_path()) {
    std::error_code error;
    if (!fs::is_directory(fs::symlink_status(directory / parent, error))) continue;
    if (!fs::remove(directory / parent, error)) return;
  }
}

void remove_place(const fs::path& directory, const std::string& place) {
  fs::remove(directory / place);
  remove_empty_parents(directory, place);
}

}  // namespace wdelta
