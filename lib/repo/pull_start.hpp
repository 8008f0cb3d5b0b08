// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file_turns.hpp"
#include "repo/pull.hpp"
#include "repo/pull_plan.hpp"
#include "repo/pull_state.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace wdelta {

/// What both ways of pulling begin with, once the directory is theirs.
struct PullStart {
  PullState before;
  LocalFiles local;
  PullPlan plan;
};

/// What a pull needs room for.
struct PullRoom {
  std::uint64_t written_bytes = 0;  ///< in its directory, at the worst
  std::uint64_t spooled_bytes = 0;  ///< where the store keeps what is read, at the worst
};

/// Throws local for something that no pull writes into: a file, or a directory whose state is behind a symlink; usage
/// for one that lies in a repository or in a delta, or that `repository` lies in.
void require_pullable(const std::filesystem::path& directory, const Repository& repository);

/// Removes what a killed pull left in `directory`, looks at every file in it, and says what is to be done. Throws
/// local, naming them, when files were changed locally and are not to be discarded, for one that is not of any commit
/// and in the way of this one, and for weights that lie in a repository. `commit` must outlive what it returns.
PullStart start_pull(const std::filesystem::path& directory, const Commit& commit, const RecipeGraph& recipes,
                     LocalChanges local_changes, const Execution& execution);

/// Throws local when there is not the room for what a pull writes into `directory`, nor for what the store keeps on
/// this machine meanwhile. What a killed pull left in `directory` for the next one has its room already.
void require_pull_space(const Store& store, const std::filesystem::path& directory, const PullRoom& room);
/// Whether there is, as far as is known.
bool has_pull_space(const Store& store, const std::filesystem::path& directory, const PullRoom& room);

/// The turns in which files of these sizes are written, where so many threads may each have one of them.
FileTurns pull_turns(const Store& store, std::span<const std::uint64_t> sizes_bytes, const Engine& engine,
                     std::size_t threads);

/// The state of a directory that is pulled into; which commit and which files is still to be filled in.
PullState state_of(const Repository& repository);

}  // namespace wdelta
