// SPDX-License-Identifier: Apache-2.0
#include "repo/pull.hpp"

#include "base/error.hpp"
#include "repo/pull_places.hpp"
#include "repo/pull_site.hpp"
#include "repo/pull_start.hpp"
#include "repo/pull_writer.hpp"

#include <algorithm>
#include <array>
#include <mutex>
#include <span>
#include <vector>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// Entrances that are out of the way while weights change. Those that this pull moved go back when it ends before any
// weights changed; what lies there from a pull that was killed does not, since it would let a loader into a mixture.
class Aside {
 public:
  explicit Aside(const fs::path& directory) : directory_(directory), folder_(aside_folder(directory)) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);  // what a pull that was killed left; and nothing is set aside through a symlink
  }
  Aside(const Aside&) = delete;
  ~Aside() {
    std::error_code ignored;
    for (const std::string& place : moved_) {
      if (is_free(place)) fs::rename(folder_ / place, directory_ / place, ignored);
    }
  }

  void set_aside(const std::string& place) {
    make_directories((folder_ / place).parent_path());
    fs::rename(directory_ / place, folder_ / place);
    moved_.push_back(place);
  }
  void bring_back(const std::string& place) {
    if (!is_free(place)) throw changed_meanwhile(directory_ / place, "made");
    fs::rename(folder_ / place, directory_ / place);
  }
  /// From now on what was set aside no longer belongs to what the directory holds.
  void weights_change() { moved_.clear(); }

 private:
  // Whether nobody has put something there meanwhile.
  bool is_free(const std::string& place) const {
    std::error_code ignored;
    return !fs::exists(fs::symlink_status(directory_ / place, ignored));
  }

  fs::path directory_;
  fs::path folder_;
  std::vector<std::string> moved_;
};

using Files = std::span<const ManifestFile* const>;

// What is written before entrances, weights first: of one part nothing begins before all of the other is there.
std::array<Files, 2> parts_of(const PullPlan& plan) {
  const auto side_files =
      std::ranges::find_if_not(plan.missing, [](const ManifestFile* file) { return is_weights(file->identity.path); });
  return {Files(plan.missing.begin(), side_files), Files(side_files, plan.missing.end())};
}

FileTurns turns_of(Files files, const Store& store, const Engine& engine, std::size_t threads) {
  std::vector<std::uint64_t> sizes_bytes;
  for (const ManifestFile* file : files) sizes_bytes.push_back(file->identity.size_bytes);
  return pull_turns(store, sizes_bytes, engine, threads);
}

// Beyond peak_bytes(): one after the other, files leave their room to the next one, but several at a time need theirs
// together.
std::uint64_t side_by_side_bytes(const PullPlan& plan, const fs::path& directory, const Store& store,
                                 const Engine& engine, std::size_t threads) {
  std::uint64_t most = 0;
  for (const Files files : parts_of(plan)) {
    const FileTurns turns = turns_of(files, store, engine, threads);
    std::vector<const ManifestFile*> side_by_side;
    for (const std::size_t index : turns.side_by_side) side_by_side.push_back(files[index]);
    std::vector<const ManifestFile*> in_lanes;
    for (const auto& lane : turns.lanes) {
      for (const std::size_t index : lane) in_lanes.push_back(files[index]);
    }
    most = std::max(most, bytes_on_their_way(side_by_side, directory, threads));
    if (turns.lanes.size() > 1) most = std::max(most, bytes_on_their_way(in_lanes, directory, turns.lanes.size()));
  }
  return most;
}

// The state while a pull is at work: what was there and what will be, so that a run after a crash takes none of it for
// a local change.
PullState state_at_work(const Repository& repository, const Manifest& manifest, const LocalFiles& local) {
  PullState state = state_of(repository);
  for (const auto& [place, held] : local.held) state.files[place] = held.pulled();
  for (const ManifestFile& file : manifest.files) state.expected[file.identity.path] = file.identity.digest;
  return state;
}

}  // namespace

PullReport pull(const Repository& repository, const Commit& commit, const fs::path& directory,
                LocalChanges local_changes, const Engine& engine, const Execution& execution) {
  require_pullable(directory, repository);
  const RecipeGraph recipes = repository.recipes(commit);  // before anything is made here
  const PullSite site(directory, PullWay::in_place, execution);
  const PullStart start = start_pull(directory, commit, recipes, local_changes, execution);
  const LocalFiles& local = start.local;
  const PullPlan& plan = start.plan;
  const Manifest& manifest = commit.manifest;
  PullWriter writer(repository, recipes, local, incoming_folder(directory), engine);
  const Store& store = repository.store();
  PullRoom room{peak_bytes(plan, directory), 0};
  PullRoom room_together = room;
  room_together.written_bytes += side_by_side_bytes(plan, directory, store, engine, execution.threads);
  PullReport report;
  report.strays = local.strays;
  report.written_files = plan.missing.size() + plan.missing_entrances.size();
  report.kept_files = manifest.files.size() - report.written_files;
  report.removed_files = plan.removed.size() + plan.in_the_way.size();
  std::vector<const ManifestFile*> missing = plan.missing;
  missing.insert(missing.end(), plan.missing_entrances.begin(), plan.missing_entrances.end());
  for (const ManifestFile* const& file : missing) {
    writer.expect(*file);
    report.written_bytes += file->identity.size_bytes;
    room.spooled_bytes = std::max(room.spooled_bytes, writer.spooled_bytes({&file, 1}));
  }
  report.fetched_bytes = writer.cost(missing);
  room_together.spooled_bytes = writer.spooled_bytes(missing);
  require_pull_space(store, directory, room);
  const bool are_together = has_pull_space(store, directory, room_together);
  if (are_together) writer.keep_objects_open();
  PullState state = state_at_work(repository, manifest, local);
  if (plan.changes_anything()) save_pull_state(directory, state);

  Aside aside(directory);
  if (plan.weights_change) {
    for (const auto& [place, held] : local.held) {
      if (!is_entrance(place)) continue;
      require_unchanged(directory, place, local);
      aside.set_aside(place);
    }
  }
  // Weights that a pull was killed over are a mixture already.
  if (!start.before.expected.empty()) aside.weights_change();
  execution.progress->begin("pulling", report.written_bytes);
  const auto remove = [&](const std::string& place) {
    require_unchanged(directory, place, local);
    aside.weights_change();
    remove_place(directory, place);
    state.files.erase(place);
  };
  std::ranges::for_each(plan.in_the_way, remove);
  std::mutex mutex;  // of the directory's places, the state and what is aside
  const auto write = [&](const ManifestFile& file, const Execution& on) {
    const std::string& place = file.identity.path;
    std::unique_lock lock(mutex);
    const fs::path path = real_place(directory, place);
    lock.unlock();
    const FileStamp stamp = writer.write(file, path, on, [&] {
      require_unchanged(directory, place, local);
      const std::lock_guard changing(mutex);
      aside.weights_change();
    });
    lock.lock();
    state.files[place] = {file.identity.digest, stamp};
  };
  for (const Files files : parts_of(plan)) {
    for_each_file(
        turns_of(files, store, engine, are_together ? execution.threads : 1), execution,
        [&](std::size_t index, const Execution& on) { write(*files[index], on); },
        [&](std::size_t index, const Execution& on) { writer.fetch_ahead(*files[index], on); });
  }
  std::ranges::for_each(plan.removed, remove);
  for (const ManifestFile* file : plan.missing_entrances) write(*file, execution);
  for (const ManifestFile* file : plan.kept_entrances) aside.bring_back(file->identity.path);
  for (const auto& [place, file] : state.files) {
    if (const auto stamp = stamp_of(directory / place); stamp && *stamp == file.stamp) continue;
    throw changed_meanwhile(directory / place);
  }
  state.commit = commit.id;
  state.expected.clear();
  let_settle(state);
  save_pull_state(directory, state);
  remove_work_folders(directory);  // what is still in there is of commits that nobody wanted in the end
  return report;
}

}  // namespace wdelta
