// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "repo/manifest.hpp"
#include "repo/pull_state.hpp"
#include "repo/recipe.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// What a directory holds, seen against its state and against the commit that it is to hold.
struct LocalFiles {
  struct Held {
    CheckpointFile file;
    Digest digest;
    bool is_settled;  ///< no change since it was hashed can have left it its stamp
    bool is_symlink;  ///< to a file that may be one of the others

    /// What a state says of it; its stamp vouches for nothing unless it is settled.
    PullState::Pulled pulled() const;
  };
  std::map<std::string, Held> held;        ///< places of the commit or of the state, their digests known
  std::vector<std::string> changed;        ///< places of bytes that no pull wrote and no recipe makes, or of no file
  std::vector<std::string> unneeded;       ///< places that a pull wrote and the commit has not
  std::vector<std::string> loaded_strays;  ///< unknown ones that a loader would pick up by name
  std::vector<std::string> strays;         ///< other unknown ones: files, FIFOs, symlinks to nothing
};

/// Of a file that somebody made or changed while a pull was at work.
Error changed_meanwhile(const std::filesystem::path& path, const char* how = "changed");

/// Throws local when there is a file at `place` that is not what survey() found there: whoever changed it since, no
/// force was asked for that. A directory is no file.
void require_unchanged(const std::filesystem::path& directory, const std::string& place, const LocalFiles& local);

/// Looks at every file; its pull holds the lock. Reads those that the state does not vouch for: a stamp is believed
/// only when it is older than the state, and than the hashing of its file, by more than the grain of its clock.
LocalFiles survey(const std::filesystem::path& directory, const PullState& state, const Manifest& wanted,
                  const RecipeGraph& recipes, const Execution& execution);

}  // namespace wdelta
