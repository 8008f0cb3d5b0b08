// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "base/output_file.hpp"
#include "repo/pull.hpp"
#include "repo/pull_site.hpp"
#include "repo/pull_start.hpp"
#include "repo/pull_writer.hpp"
#include "repo/stray_files.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <mutex>
#include <vector>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

bool has_bytes_of(const LocalFiles& local, const ManifestFile& file) {
  const auto held = local.held.find(file.identity.path);
  return held != local.held.end() && held->second.digest == file.identity.digest;
}

// Places that the commit or a pull answers for: no strays.
std::set<std::string> known_places(const Manifest& manifest, const PullStart& start) {
  std::set<std::string> known;
  for (const ManifestFile& file : manifest.files) known.insert(file.identity.path);
  for (const auto& [place, held] : start.local.held) known.insert(place);
  known.insert(start.plan.removed.begin(), start.plan.removed.end());
  known.insert(start.plan.in_the_way.begin(), start.plan.in_the_way.end());
  return known;
}

// Whether the files that are right can be had without room of their own.
bool can_clone(const fs::path& from, const fs::path& beside) try {
  return OutputFile(beside / "clone").clone(File::open(from));
} catch (const Error&) {
  return false;
}

std::uint64_t needed_bytes(const Manifest& manifest, const LocalFiles& local, const PullSite& site) {
  std::uint64_t fresh = 0;
  std::uint64_t copied = 0;
  fs::path largest;
  std::uint64_t largest_bytes = 0;
  for (const ManifestFile& file : manifest.files) {
    (has_bytes_of(local, file) ? copied : fresh) += file.identity.size_bytes;
    if (!has_bytes_of(local, file) || file.identity.size_bytes <= largest_bytes) continue;
    largest = site.directory() / file.identity.path;
    largest_bytes = file.identity.size_bytes;
  }
  return fresh + (copied > 0 && can_clone(largest, site.sibling()) ? 0 : copied);
}

void sync_tree(const fs::path& directory) {
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    if (fs::is_directory(entry.symlink_status())) sync_directory(entry.path());
  }
  sync_directory(directory);
}

// What was made in the directory while it was being replaced. It has been replaced: from here on nothing is an error.
void take_late_strays_along(const PullSite& site, const std::set<std::string>& known, const Execution& execution) try {
  take_strays_along(site.sibling(), site.directory(), known, Taken::leave);
} catch (const std::exception& error) {
  execution.progress->note(fmt::format("{}: {}", site.directory().string(), error.what()));
}

}  // namespace

// Killed at any point before exchange(), the directory is as it was, and what lies beside it is removed by the next
// pull; strays in there are links or copies, so that none is lost. Killed behind it, the directory is the commit.
PullReport pull_swap(const Repository& repository, const Commit& commit, const fs::path& directory,
                     LocalChanges local_changes, const Engine& engine, const Execution& execution) {
  require_pullable(directory, repository);
  const RecipeGraph recipes = repository.recipes(commit);  // before anything is made here
  PullSite site(directory, PullWay::swap, execution);
  const bool replaces = site.is_there();
  PullStart start;
  if (replaces) start = start_pull(site.directory(), commit, recipes, local_changes, execution);
  const Manifest& manifest = commit.manifest;
  const LocalFiles& local = start.local;
  if (!replaces) start.plan = plan_pull(manifest, local);

  // Without a directory there is no place beyond a kill but the store's own.
  PullWriter writer(repository, recipes, local, replaces ? incoming_folder(site.directory()) : fs::path(), engine);
  PullRoom room;
  PullRoom room_together;
  PullReport report;
  report.strays = local.strays;
  report.removed_files = start.plan.removed.size() + start.plan.in_the_way.size();
  std::vector<std::uint64_t> sizes_bytes;
  std::vector<const ManifestFile*> missing;
  std::uint64_t total_bytes = 0;
  for (const ManifestFile& file : manifest.files) {
    sizes_bytes.push_back(file.identity.size_bytes);
    total_bytes += file.identity.size_bytes;
    if (has_bytes_of(local, file)) continue;
    writer.expect(file);
    report.written_bytes += file.identity.size_bytes;
    const ManifestFile* const& missed = missing.emplace_back(&file);
    room.spooled_bytes = std::max(room.spooled_bytes, writer.spooled_bytes({&missed, 1}));
  }
  // As a pull in place counts: one that only becomes executable is written.
  report.written_files = start.plan.missing.size() + start.plan.missing_entrances.size();
  report.kept_files = manifest.files.size() - report.written_files;
  report.fetched_bytes = writer.cost(missing);
  room_together.spooled_bytes = writer.spooled_bytes(missing);
  PullState state = state_of(repository);
  state.commit = commit.id;
  if (replaces && !start.plan.changes_anything()) {
    for (const auto& [place, held] : local.held) state.files[place] = held.pulled();
    save_pull_state(site.directory(), state);
    remove_work_folders(site.directory());
    return report;
  }

  room.written_bytes = room_together.written_bytes = needed_bytes(manifest, local, site);
  require_pull_space(repository.store(), site.directory(), room);
  const bool are_together = has_pull_space(repository.store(), site.directory(), room_together);
  if (are_together) writer.keep_objects_open();
  execution.progress->begin("pulling", total_bytes);
  std::mutex mutex;  // of the state
  const FileTurns turns = pull_turns(repository.store(), sizes_bytes, engine, are_together ? execution.threads : 1);
  const auto write = [&](std::size_t index, const Execution& on) {
    const ManifestFile& file = manifest.files[index];
    const std::string& place = file.identity.path;
    const fs::path path = site.sibling() / place;
    make_directories(path.parent_path());
    const FileStamp stamp = has_bytes_of(local, file) ? writer.copy(file, site.directory() / place, path, on)
                                                      : writer.write(file, path, on);
    const std::lock_guard lock(mutex);
    state.files[place] = {file.identity.digest, stamp};
  };
  for_each_file(turns, execution, write, [&](std::size_t index, const Execution& on) {
    const ManifestFile& file = manifest.files[index];
    if (!has_bytes_of(local, file)) writer.fetch_ahead(file, on);
  });
  const std::set<std::string> known = known_places(manifest, start);
  if (replaces) take_strays_along(site.directory(), site.sibling(), known, Taken::refuse);
  let_settle(state);
  save_pull_state(site.sibling(), state);  // says that it is complete
  sync_tree(site.sibling());
  if (replaces) {
    for (const std::string& place : known_places(manifest, start)) require_unchanged(site.directory(), place, local);
  }
  execution.check_stop();
  site.exchange();
  if (replaces) take_late_strays_along(site, known, execution);
  return report;
}

}  // namespace wdelta
