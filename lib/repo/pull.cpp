// SPDX-License-Identifier: Apache-2.0
#include "repo/pull.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "repo/local_files.hpp"
#include "repo/version_finder.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// What a loader reads first: without it no loader starts.
bool is_entrance(const std::string& place) {
  return place.ends_with(".safetensors.index.json") || fs::path(place).filename() == "config.json";
}

// Weights first, then side files, then what lets a loader in.
int order_of(const ManifestFile& file) {
  if (is_entrance(file.identity.path)) return 2;
  return is_weights(file.identity.path) ? 0 : 1;
}

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

// Nothing is written through a symlink: every directory on the way must be a real one.
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
  return path / relative.filename();
}

// Entrances that are out of the way while weights change. Puts them back when nothing was changed after all.
class Aside {
 public:
  explicit Aside(const fs::path& directory) : directory_(directory), folder_(pull_folder(directory) / "aside") {}
  Aside(const Aside&) = delete;
  ~Aside() {
    if (!changed_) restore();
  }

  void set_aside(const std::string& place) {
    make_directories((folder_ / place).parent_path());
    fs::rename(directory_ / place, folder_ / place);
  }
  void bring_back(const std::string& place) { fs::rename(folder_ / place, directory_ / place); }
  /// From now on what was set aside no longer belongs to what the directory holds.
  void weights_change() { changed_ = true; }
  void restore() noexcept {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder_, error)) {
      const fs::path target = directory_ / entry.path().lexically_relative(folder_);
      if (entry.is_regular_file(error) && !fs::exists(target, error)) fs::rename(entry.path(), target, error);
    }
    discard();
  }
  void discard() noexcept {
    std::error_code error;
    fs::remove_all(folder_, error);
  }

 private:
  fs::path directory_;
  fs::path folder_;
  bool changed_ = false;
};

class FileWriter {
 public:
  FileWriter(const Repository& repository, const Commit& commit, const LocalFiles& local, const Engine& engine,
             const Execution& execution)
      : repository_(&repository),
        engine_(&engine),
        execution_(&execution),
        graph_(repository.recipes(commit)),
        stored_graph_(graph_),
        finder_(repository.store(), graph_, engine, execution) {
    for (const auto& [place, held] : local.held) {
      if (!is_weights(place)) continue;
      graph_.add_at_hand(held.digest);
      finder_.add_at_hand({place, held.file.size_bytes, held.digest}, held.file.open());
    }
    graph_.settle();
    stored_graph_.settle();
  }

  std::uint64_t cost(const ManifestFile& file) const {
    return file.content || !graph_.can_make(file.identity.digest) ? 0 : graph_.cost(file.identity.digest);
  }

  FileStamp write(const ManifestFile& file, const fs::path& path) {
    OutputFile output(path);
    if (file.content) {
      const std::span bytes(reinterpret_cast<const std::uint8_t*>(file.content->data()), file.content->size());
      if (blake3(bytes) != file.identity.digest) {
        throw Error(Fault::corrupt, file.identity.path, "its content in the manifest has another digest than it says");
      }
      output.append(bytes);
      execution_->progress->advance(bytes.size());
    } else {
      write_bytes(file, output);
    }
    if (file.executable) output.set_executable();
    if (fs::is_directory(fs::symlink_status(path)))
      throw Error(Fault::local, path.string(), "is a directory, a file belongs there");
    output.commit(Overwrite::yes, Durability::synced);
    return stamp_of(path).value();
  }

 private:
  void write_bytes(const ManifestFile& file, OutputFile& output) {
    try {
      write_version(finder_.find(file.identity), &output, *execution_);
    } catch (const Error& error) {
      if (error.fault() != Fault::base_mismatch) throw;
      execution_->progress->note(
          fmt::format("{}: changed since it was looked at: fetching {} anew", error.object(), file.identity.path));
      VersionFinder stored(repository_->store(), stored_graph_, *engine_, *execution_);
      write_version(stored.find(file.identity), &output, *execution_);
    }
  }

  const Repository* repository_;
  const Engine* engine_;
  const Execution* execution_;
  RecipeGraph graph_;
  RecipeGraph stored_graph_;
  VersionFinder finder_;
};

}  // namespace

PullReport pull(const Repository& repository, const Commit& commit, const fs::path& directory,
                LocalChanges local_changes, const Engine& engine, const Execution& execution) {
  if (fs::exists(directory) && !fs::is_directory(directory))
    throw Error(Fault::local, directory.string(), "is not a directory");
  make_directories(pull_folder(directory));
  const FileLock lock(pull_folder(directory) / "lock", "waiting for another pull into this directory", execution);
  Aside aside(directory);
  aside.restore();  // of a pull that was killed

  const Manifest& manifest = commit.manifest;
  PullState state = load_pull_state(directory);
  execution.progress->begin("looking at local files", 0);
  const LocalFiles local = survey(directory, state, manifest, repository.recipes(commit), execution);
  if (local_changes == LocalChanges::refuse) refuse_local_changes(directory, local);

  PullReport report;
  report.strays = local.strays;
  FileWriter writer(repository, commit, local, engine, execution);
  std::vector<const ManifestFile*> missing;
  state.files.clear();
  for (const ManifestFile& file : manifest.files) {
    const auto held = local.held.find(file.identity.path);
    const bool right = held != local.held.end() && held->second.digest == file.identity.digest &&
                       held->second.file.executable == file.executable;
    if (right) {
      state.files[file.identity.path] = {file.identity.digest, *held->second.file.stamp};
      ++report.kept_files;
    } else {
      missing.push_back(&file);
      report.written_bytes += file.identity.size_bytes;
      report.fetched_bytes += writer.cost(file);
    }
  }
  std::ranges::stable_sort(missing, {}, [](const ManifestFile* file) { return order_of(*file); });
  std::vector<std::string> removed = local.unneeded;
  for (const auto* unknown : {&local.changed, &local.loaded_strays}) {
    std::ranges::copy_if(*unknown, std::back_inserter(removed),
                         [&](const std::string& place) { return manifest.find(place) == nullptr; });
  }
  const bool weights_change =
      std::ranges::any_of(missing, [](const ManifestFile* file) { return is_weights(file->identity.path); }) ||
      std::ranges::any_of(removed, [](const std::string& place) { return is_weights(place); });

  // From here on the state says what may be found, so that a run after a crash takes none of it for a local change.
  PullState at_work = state;
  at_work.repository = state.repository = repository.name();
  at_work.commit.reset();
  for (const auto& [place, held] : local.held) at_work.files[place] = {held.digest, *held.file.stamp};
  for (const ManifestFile& file : manifest.files) at_work.expected[file.identity.path] = file.identity.digest;
  if (!missing.empty() || !removed.empty()) save_pull_state(directory, at_work);
  if (weights_change) {
    for (const auto& [place, held] : local.held) {
      if (is_entrance(place)) aside.set_aside(place);
    }
  }
  execution.progress->begin("pulling", report.written_bytes);
  for (const ManifestFile* file : missing) {
    const fs::path path = real_place(directory, file->identity.path);
    state.files[file->identity.path] = {file->identity.digest, writer.write(*file, path)};
    aside.weights_change();
    ++report.written_files;
  }
  for (const std::string& place : removed) {
    fs::remove(directory / place);
    ++report.removed_files;
  }
  // Entrances that were right all along come back last.
  for (const ManifestFile& file : manifest.files) {
    const auto held = local.held.find(file.identity.path);
    const bool right = held != local.held.end() && held->second.digest == file.identity.digest;
    if (weights_change && right && is_entrance(file.identity.path) && !fs::exists(directory / file.identity.path)) {
      aside.bring_back(file.identity.path);
    }
  }
  state.commit = commit.id;
  state.expected.clear();
  save_pull_state(directory, state);
  aside.discard();
  return report;
}

}  // namespace wdelta
