// SPDX-License-Identifier: Apache-2.0
#include "repo/pull_start.hpp"

#include "base/error.hpp"
#include "base/leftovers.hpp"
#include "base/path.hpp"
#include "base/space.hpp"
#include "delta/place_turns.hpp"
#include "repo/pull_places.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

void refuse_local_changes(const fs::path& directory, const LocalFiles& local) {
  std::vector<std::string> names = local.changed;
  names.insert(names.end(), local.loaded_strays.begin(), local.loaded_strays.end());
  if (names.empty()) return;
  constexpr std::size_t k_named = 10;
  const std::string more = names.size() > k_named ? fmt::format(" and {} more", names.size() - k_named) : "";
  names.resize(std::min(names.size(), k_named));
  throw Error(
      Fault::local, directory.string(),
      fmt::format("holds files that were changed locally or are not of any commit: {}{}", fmt::join(names, ", "), more),
      "--force replaces or removes them");
}

// A repository, or a delta between directories.
bool is_of_wdelta(const fs::path& directory) { return fs::exists(directory / k_settings_key); }

// By force what a loader would pick up is removed, but not out of somebody's repository.
void refuse_to_remove_from_others(const fs::path& directory, const std::vector<std::string>& loaded_strays) {
  for (const std::string& place : loaded_strays) {
    for (fs::path around = fs::path(place).parent_path(); !around.empty(); around = around.parent_path()) {
      if (!is_of_wdelta(directory / around)) continue;
      throw Error(Fault::local, (directory / around).string(), "is a repository or a delta: nothing in it is removed",
                  "move it away");
    }
  }
}

// Writing to these places, or taking strays along, would find out too, but only after some or all of the work.
// What a directory holds that is no file of a checkpoint by its name alone, as a .git, and so was not looked at.
// Nothing where there is none, or it is no directory.
std::optional<fs::path> find_unseen(const fs::path& directory, const std::string& place, const LocalFiles& local) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(directory / place, error))) return std::nullopt;
  constexpr auto k_closed_to_us = fs::directory_options::skip_permission_denied;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory / place, k_closed_to_us, error)) {
    if (fs::is_directory(entry.symlink_status(error))) continue;
    if (!local.held.contains(entry.path().lexically_relative(directory).generic_string())) return entry.path();
  }
  return std::nullopt;
}

void refuse_in_the_way(const fs::path& directory, const LocalFiles& local, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    if (const auto unseen = find_unseen(directory, file.identity.path, local)) {
      throw Error(Fault::local, unseen->string(), fmt::format("is in the way of {}", file.identity.path),
                  "move it away");
    }
  }
  for (const std::string& stray : local.strays) {
    for (const ManifestFile& file : manifest.files) {
      if (!lies_in(stray, file.identity.path) && !lies_in(file.identity.path, stray)) continue;
      throw Error(Fault::local, (directory / stray).string(), fmt::format("is in the way of {}", file.identity.path),
                  "move it away");
    }
  }
}

// What a pull that was killed left beside the places that it was going to write, and beside its state; and directories
// that it had emptied, or not filled yet.
void remove_leftovers(const fs::path& directory, const PullState& state) {
  remove_leftovers_of(pull_folder(directory) / "state.json");
  if (state.expected.empty()) return;
  const auto clean = [&](const std::string& place) {
    if (goes_through_symlink(directory, place)) return;
    remove_leftovers_of(directory / place);
    if (!fs::exists(fs::symlink_status(directory / place))) remove_empty_parents(directory, place);
  };
  for (const auto& [place, digest] : state.expected) clean(place);
  for (const auto& [place, file] : state.files) clean(place);
}

PullState load_state(const fs::path& directory, LocalChanges local_changes) try {
  return load_pull_state(directory);
} catch (const Error& error) {
  if (local_changes == LocalChanges::discard) return {};
  throw Error(error.fault(), error.object(), error.what(), "--force goes on without it and looks at every file");
}

struct NeededRoom {
  std::uint64_t in_directory_bytes;
  std::optional<fs::path> spool;  // where that is on another file system
};

NeededRoom needed_room(const Store& store, const fs::path& directory, const PullRoom& room) {
  const std::uint64_t arrived_bytes = taken_bytes_in(incoming_folder(directory));
  NeededRoom needed{room.written_bytes - std::min(room.written_bytes, arrived_bytes), store.spooling_path()};
  if (needed.spool && are_on_one_file_system(*needed.spool, directory)) {
    needed.in_directory_bytes += room.spooled_bytes;
    needed.spool.reset();
  }
  return needed;
}

}  // namespace

void require_pullable(const fs::path& directory, const Repository& repository) {
  const fs::path real = fs::weakly_canonical(fs::absolute(directory));
  for (fs::path around = real; around.has_relative_path(); around = around.parent_path()) {
    if (!is_of_wdelta(around)) continue;
    throw Error(Fault::usage, directory.string(), "is a repository or a delta, or lies in one",
                "name a directory for the checkpoint");
  }
  const auto store = directory_named(repository.name());
  if (store && lies_within(*store, directory)) {
    throw Error(Fault::usage, directory.string(), fmt::format("holds the repository {}", repository.name()),
                "keep the repository somewhere else");
  }
  if (fs::exists(directory) && !fs::is_directory(directory)) {
    throw Error(Fault::local, directory.string(), "is not a directory");
  }
  if (fs::is_symlink(fs::symlink_status(pull_folder(directory)))) {
    throw Error(Fault::local, pull_folder(directory).string(), "is a symlink: nothing is written through it");
  }
}

PullStart start_pull(const fs::path& directory, const Commit& commit, const RecipeGraph& recipes,
                     LocalChanges local_changes, const Execution& execution) {
  PullStart start;
  start.before = load_state(directory, local_changes);
  remove_leftovers(directory, start.before);
  execution.progress->begin("looking at local files", 0);
  start.local = survey(directory, start.before, commit.manifest, recipes, execution);
  if (local_changes == LocalChanges::refuse) refuse_local_changes(directory, start.local);
  refuse_to_remove_from_others(directory, start.local.loaded_strays);
  refuse_in_the_way(directory, start.local, commit.manifest);
  start.plan = plan_pull(commit.manifest, start.local);
  return start;
}

void require_pull_space(const Store& store, const fs::path& directory, const PullRoom& room) {
  const NeededRoom needed = needed_room(store, directory, room);
  if (needed.spool) {
    try {
      require_space_at(*needed.spool, room.spooled_bytes);
    } catch (const Error& error) {
      throw Error(error.fault(), error.object(), error.what(),
                  "WDELTA_CACHE_DIR names another place for what is on its way; nothing was begun");
    }
  }
  require_space_at(directory, needed.in_directory_bytes);
}

bool has_pull_space(const Store& store, const fs::path& directory, const PullRoom& room) {
  const NeededRoom needed = needed_room(store, directory, room);
  const auto has = [](const fs::path& path, std::uint64_t needed_bytes) {
    const std::optional<std::uint64_t> free_bytes = free_bytes_at(path);
    return !free_bytes || *free_bytes >= needed_bytes;
  };
  return has(directory, needed.in_directory_bytes) && (!needed.spool || has(*needed.spool, room.spooled_bytes));
}

FileTurns pull_turns(const Store& store, std::span<const std::uint64_t> sizes_bytes, const Engine& engine,
                     std::size_t threads) {
  return place_turns(sizes_bytes, engine, threads, {.waits_for_network = store.is_remote(), .writes_file = true});
}

PullState state_of(const Repository& repository) {
  PullState state;
  state.repository = is_utf8(repository.name()) ? repository.name() : "";  // only said for people
  return state;
}

}  // namespace wdelta
