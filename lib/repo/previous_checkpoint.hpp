// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "delta/base_files.hpp"
#include "delta/diff.hpp"
#include "repo/push_state.hpp"
#include "repo/repository.hpp"
#include "repo/version_finder.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// Files that are at hand, by their places.
using FilesAtHand = std::map<std::string, std::function<std::shared_ptr<const ByteReader>()>>;

/// The checkpoint of the parent commit, to compare a new one with. Its files are read where the last push from here
/// found them, if they still lie there unchanged, else out of the repository; those that it has no way to are left out.
/// A local file is a guess until its digest is known, and may go at any moment, when a trainer rotates it: whoever
/// compares with it checks that, and calls distrust() when the guess was wrong, or when reading threw and it
/// may_be_to_blame_for() that.
class PreviousCheckpoint {
 public:
  /// `parent` and `graph` must outlive it. `at_hand`: files of the parent that need not be looked for.
  PreviousCheckpoint(const Repository& repository, const Commit& parent, const RecipeGraph& graph,
                     const std::optional<PushState>& state, const Engine& engine, const Execution& execution,
                     FilesAtHand at_hand = {});

  /// Candidates to compare the file at `path` with, as BaseFiles::for_place() has it.
  OrderedBase for_place(const std::string& path, const SafetensorsHeader& next) const {
    return files_->for_place(path, next);
  }
  /// What to compare a file of unknown format at `path` with: the file at that place, or one whose place differs only
  /// in its numbers. Nothing when there is none.
  std::optional<OpaqueBase> opaque_for(const std::string& path) const;
  /// Reads everything out of the repository from now on.
  void distrust();
  bool is_local() const { return local_files_ > 0; }
  /// Whether all of it comes out of the repository, though there is something to compare with.
  bool is_of_repository() const { return local_files_ == 0 && file_count_ > 0; }
  /// Whether what was thrown may be of a local file: one is damaged, or does not lie there any more as it did at first.
  bool may_be_to_blame_for(const Error& error) const;

 private:
  bool has_changed() const;
  void open();
  std::optional<std::filesystem::path> local_file(const std::string& place) const;

  const Commit* parent_;
  const RecipeGraph* graph_;
  VersionFinder finder_;
  std::optional<PushState> state_;
  FilesAtHand at_hand_;
  std::size_t file_count_ = 0;  // of those whose bytes are not in the manifest
  std::size_t local_files_ = 0;
  std::map<std::filesystem::path, FileStamp> stamps_;  // of local files, but for those that were at hand
  std::optional<BaseFiles> files_;
  std::vector<CheckpointFile> opaque_files_;
};

}  // namespace wdelta
