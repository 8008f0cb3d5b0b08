// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/local_files.hpp"
#include "repo/manifest.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// Whether a loader reads a file at that place first: without it no loader starts.
bool is_entrance(const std::string& place);

/// What has to be done to a directory, so that it holds a commit.
struct PullPlan {
  std::vector<const ManifestFile*> missing;            ///< in the order to write them
  std::vector<const ManifestFile*> missing_entrances;  ///< to write when all else is right, old weights gone too
  std::vector<const ManifestFile*> kept_entrances;     ///< right as they are, but aside until all else is right
  std::vector<std::string> in_the_way;  ///< to remove before, where a file becomes a directory or the reverse
  std::vector<std::string> removed;     ///< to remove after
  bool weights_change = false;

  bool changes_anything() const {
    return missing.size() + missing_entrances.size() + in_the_way.size() + removed.size() > 0;
  }
};

/// `manifest` must outlive the plan.
PullPlan plan_pull(const Manifest& manifest, const LocalFiles& local);

/// Room that carrying out the plan in place takes at its worst: each file needs its room before that of the one that it
/// replaces is free.
std::uint64_t peak_bytes(const PullPlan& plan, const std::filesystem::path& directory);
/// Room that it takes beyond that, at most, where so many of `files` are on their way at a time.
std::uint64_t bytes_on_their_way(std::span<const ManifestFile* const> files, const std::filesystem::path& directory,
                                 std::size_t at_a_time);

}  // namespace wdelta
