// SPDX-License-Identifier: Apache-2.0
#include "store/directory_store.hpp"

#include "base/error.hpp"
#include "base/leftovers.hpp"
#include "base/moment.hpp"
#include "base/output_directory.hpp"
#include "base/path.hpp"
#include "base/space.hpp"
#include "store/percent.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <utility>
#include <vector>

namespace wdelta {

namespace fs = std::filesystem;

namespace {
std::int64_t mtime_s(const FileStamp& stamp) { return stamp.mtime_ns / 1'000'000'000; }

// Of a file or a directory; nothing once it is gone.
std::optional<std::int64_t> changed_s(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_mtim.tv_sec;
}

// Where a file lies for the moment in which it is removed, or put back: with its key, percent-encoded, behind.
constexpr std::string_view k_aside = "staging/removed-";
constexpr std::size_t k_random_digits = 16;

std::string aside_of(const std::string& key) {
  return std::string(k_aside) + random_hex(k_random_digits) + "-" + percent_encoded(key, Slashes::encoded);
}

// The way back; nothing for a name of another kind.
std::optional<std::string> key_aside(const std::string& place) {
  const std::size_t behind = k_aside.size() + k_random_digits;
  if (!place.starts_with(k_aside) || place.size() <= behind || place[behind] != '-') return std::nullopt;
  auto key = percent_decoded(place.substr(behind + 1));
  return key && why_not_a_place(*key) == nullptr ? key : std::nullopt;
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

constexpr fs::perms k_for_group = fs::perms::group_read | fs::perms::group_write;
constexpr fs::perms k_folder_for_group = k_for_group | fs::perms::group_exec | fs::perms::set_gid;

// As in a repository that git keeps for a group (core.sharedRepository), but the directory itself says so.
bool is_for_group(const fs::path& root) {
  constexpr fs::perms k_says_so = fs::perms::set_gid | fs::perms::group_write;
  std::error_code ignored;
  const fs::file_status status = fs::status(root, ignored);
  return fs::is_directory(status) && (status.permissions() & k_says_so) == k_says_so;
}

/// Which symlinks to directories are followed while a tree is walked: none to a directory around it, and behind one
/// each directory once. A tree of a few dozen symlinks could be walked through for ever otherwise.
class FollowedSymlinks {
 public:
  /// To be asked of every entry that is walked over, `depth` below the top.
  bool is_followed(const fs::directory_entry& entry, int depth) {
    while (!depths_.empty() && depth <= depths_.back()) depths_.pop_back();
    if (depths_.empty()) seen_.clear();
    std::error_code ignored;
    if (!entry.is_symlink(ignored) || !entry.is_directory(ignored)) return true;
    struct stat status {};
    if (::stat(entry.path().c_str(), &status) != 0) return false;
    const bool is_new = seen_.emplace(status.st_dev, status.st_ino).second;
    if (!is_new || lies_within(entry.path().parent_path(), entry.path())) return false;
    depths_.push_back(depth);
    return true;
  }

 private:
  std::vector<int> depths_;                 // of those that lie around the entry
  std::set<std::pair<dev_t, ino_t>> seen_;  // behind the first of these
};

}  // namespace

DirectoryStore::DirectoryStore(const fs::path& root)
    : root_(fs::absolute(root).lexically_normal()), name_(root.string()), for_group_(is_for_group(root_)) {}

fs::path DirectoryStore::path_of(const std::string& key) const {
  require_place(key, name_);
  return root_ / key;
}

fs::path DirectoryStore::path_for_writing(const std::string& key) {
  fs::path path = path_of(key);
  fs::path there = path.parent_path();
  while (!fs::exists(there)) there = there.parent_path();
  make_folder(path.parent_path());
  // The new directories' names must be as durable as what is put into them, the repository's own too.
  for (fs::path made = path.parent_path(); made != there; made = made.parent_path()) {
    sync_directory(made.parent_path());
  }
  return path;
}

void DirectoryStore::make_folder(const fs::path& path) {
  if (!for_group_) return make_directories(path);
  if (fs::is_directory(path)) return;
  make_folder(path.parent_path());
  // It appears with its mode: another of the group may be about to write into it.
  try {
    OutputDirectory folder(path);
    std::error_code error;
    fs::permissions(folder.inside(), k_folder_for_group, fs::perm_options::add, error);
    if (error) throw system_error(error.value(), path.string(), "set mode");
    folder.commit();
  } catch (const Error&) {
    if (!fs::is_directory(path)) throw;  // else someone was first
  }
}

void DirectoryStore::commit(OutputFile& output, const fs::path& path, Overwrite overwrite) const {
  if (for_group_) output.add_permissions(k_for_group);
  output.commit_as(path, overwrite, Durability::synced);
}

std::shared_ptr<const ByteReader> DirectoryStore::get(const std::string& key) const {
  // A key is a file: what is only the beginning of other keys, or lies below one, is not there.
  const fs::path path = path_of(key);
  std::error_code ignored;
  const fs::file_type type = fs::status(path, ignored).type();
  if (type == fs::file_type::not_found || type == fs::file_type::directory) return nullptr;
  try {
    return std::make_shared<File>(File::open(path));
  } catch (const Error& error) {
    if (error.fault() == Fault::not_found) return nullptr;
    throw;
  }
}

void DirectoryStore::put(const std::string& key, std::string_view bytes) {
  const fs::path path = path_for_writing(key);
  OutputFile output(path);
  output.append(bytes);
  commit(output, path, Overwrite::yes);
}

fs::path DirectoryStore::staging_path() { return path_for_writing("staging/object"); }

OutputFile DirectoryStore::stage() { return OutputFile(staging_path(), Durability::synced); }

void DirectoryStore::put_staged(const std::string& key, OutputFile&& staged) {
  OutputFile output = std::move(staged);
  commit(output, path_for_writing(key), Overwrite::yes);
}

bool DirectoryStore::create(const std::string& key, std::string_view bytes) {
  const fs::path path = path_for_writing(key);
  OutputFile output(path);
  output.append(bytes);
  try {
    commit(output, path, Overwrite::no);
    return true;
  } catch (const Error& error) {
    if (error.fault() == Fault::conflict) return false;
    throw;
  }
}

std::vector<Store::Listed> DirectoryStore::list(const std::string& prefix) const {
  std::vector<Listed> listed;
  if (!prefix.empty()) require_place(prefix.substr(0, prefix.size() - 1), name_);
  const fs::path top = root_ / prefix;
  std::error_code error;
  // What get() finds through a symlink is listed: who removes what nothing names must know all that names something.
  FollowedSymlinks symlinks;
  fs::recursive_directory_iterator walk(top, fs::directory_options::follow_directory_symlink, error);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return listed;
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    const std::string key = prefix + walk->path().lexically_relative(top).generic_string();
    // Temporary files of writers at work, or of some that were killed, are no keys. Nor is anything in a directory that
    // hides: one that a writer makes is gone in the next moment, what others keep there may be closed to us.
    if (is_hidden(walk->path())) {
      walk.disable_recursion_pending();
      continue;
    }
    if (!symlinks.is_followed(*walk, walk.depth())) walk.disable_recursion_pending();
    std::error_code looked;
    if (key.starts_with("staging/")) continue;
    // Some file systems do not say with its name what a file is.
    const fs::file_type type = walk->status(looked).type();
    if (type == fs::file_type::none) throw system_error(looked.value(), walk->path().string(), "stat");
    if (type == fs::file_type::directory) continue;
    if (type != fs::file_type::regular) {
      // Removed since it was named; else it may stand in the place of what others need.
      if (!fs::exists(walk->symlink_status(looked))) continue;
      throw Error(Fault::corrupt, walk->path().string(), "is no file, nor a symlink to one", "move it away");
    }
    if (const auto stamp = stamp_of(walk->path()))
      listed.push_back({key, stamp->size_bytes, stamp->mtime_ns / 1'000'000});
  }
  if (error) throw system_error(error.value(), top.string(), "list");
  std::ranges::sort(listed, {}, &Listed::key);
  return listed;
}

std::optional<std::uint64_t> DirectoryStore::free_bytes() const { return free_bytes_at(root_); }

bool DirectoryStore::is_removable(const fs::path& path) const {
  const fs::path place = path.lexically_relative(root_);
  const fs::path kind = *place.begin();
  if (kind == place) return true;
  std::error_code error;
  const fs::path expected = fs::canonical(root_ / kind, error) / place.parent_path().lexically_relative(kind);
  const fs::path found = fs::canonical(path.parent_path(), error);
  return error || found == expected.lexically_normal() || found / "" == expected.lexically_normal();
}

void DirectoryStore::remove(const std::string& key) {
  if (!is_removable(path_of(key)))
    throw Error(Fault::local, path_of(key).string(), "lies behind a symlink, and is not removed there");
  std::error_code error;
  fs::remove(path_of(key), error);
  if (error) throw system_error(error.value(), path_of(key).string(), "remove");
}

// Moved aside first: between a look at the file and its removal a push could replace it. Whoever is killed before it is
// put back leaves that to bring_back().
bool DirectoryStore::remove_older(const std::string& key, std::int64_t time_s) {
  const fs::path path = path_of(key);
  if (!is_removable(path)) return false;
  const auto is_young = [&](const fs::path& file) {
    const auto stamp = stamp_of(file);
    return stamp && mtime_s(*stamp) >= time_s;
  };
  if (is_young(path)) return false;
  const fs::path aside = path_for_writing(aside_of(key));
  std::error_code error;
  fs::rename(path, aside, error);
  if (error == std::errc::no_such_file_or_directory) return false;
  if (error) throw system_error(error.value(), path.string(), "remove");
  if (is_young(aside)) {
    fs::rename(aside, path, error);
    if (error) throw system_error(error.value(), path.string(), "put back");
    return false;
  }
  fs::remove(aside, error);
  if (error) throw system_error(error.value(), aside.string(), "remove");
  return true;
}

void DirectoryStore::bring_back() {
  std::error_code error;
  fs::directory_iterator walk(root_ / "staging", error);
  for (; !error && walk != fs::directory_iterator(); walk.increment(error)) {
    if (const auto key = key_aside(walk->path().lexically_relative(root_).generic_string()))
      put_back(walk->path(), *key);
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw system_error(error.value(), (root_ / "staging").string(), "read directory");
}

void DirectoryStore::remove_leftovers(std::int64_t time_s, const IsOurs&) {
  std::error_code error;
  fs::recursive_directory_iterator walk(root_, error);
  for (; !error && walk != fs::recursive_directory_iterator(); walk.increment(error)) {
    if (is_hidden(walk->path())) walk.disable_recursion_pending();  // as in list()
    const std::string place = walk->path().lexically_relative(root_).generic_string();
    if (key_aside(place)) continue;  // it may still be needed
    const bool is_leftover = is_temporary_name(walk->path().filename().string()) || place.starts_with("staging/");
    std::error_code vanished;
    if (!is_leftover || walk->is_symlink(vanished)) continue;
    const bool is_folder = walk->is_directory(vanished);
    if (is_folder) walk.disable_recursion_pending();  // one that was being made, and is empty
    if (!is_folder && !walk->is_regular_file(vanished)) continue;
    const auto changed = changed_s(walk->path());
    if (changed && *changed < time_s) fs::remove(walk->path(), vanished);
  }
}

// What is missing at its key may be what somebody needs: if not, it is garbage once more.
void DirectoryStore::put_back(const fs::path& aside, const std::string& key) {
  const fs::path path = path_for_writing(key);
  std::error_code error;
  fs::create_hard_link(aside, path, error);
  if (error && error != std::errc::file_exists) return;  // gone, or to be tried again next time
  if (!error) sync_directory(path.parent_path());
  fs::remove(aside, error);
}

}  // namespace wdelta
