// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "engine/engine.hpp"
#include "repo/repository.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wdelta {

/// Whether to replace files that were changed since they were pulled, and to remove weights that nobody knows.
enum class LocalChanges { refuse, discard };

struct PullReport {
  std::size_t written_files = 0;
  std::size_t kept_files = 0;
  std::size_t removed_files = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t fetched_bytes = 0;  ///< of objects; what local files were good for is not in it
  std::vector<std::string> strays;  ///< what is not of the commit and was left alone
};

/// Makes `directory` hold exactly `commit`, out of whatever it holds already: files that are right are kept, others are
/// rebuilt beside their place, from local files where a delta applies to one, checked, and renamed into it. Index and
/// config files are set aside first and come back last, so that no loader starts on a mixture; a run that was killed is
/// finished by the next. Throws local, naming them, when files were changed locally. Never writes to the repository.
/// pull_swap() does the same for whoever must never see a mixture: all of it is built in a hidden directory beside,
/// with copies of the files that are right, and takes the directory's name in one step. What the directory holds
/// besides goes along. A run that was killed leaves it as it was; the next one, of either kind, removes what is left
/// beside it.
PullReport pull(const Repository& repository, const Commit& commit, const std::filesystem::path& directory,
                LocalChanges local_changes, const Engine& engine, const Execution& execution);
PullReport pull_swap(const Repository& repository, const Commit& commit, const std::filesystem::path& directory,
                     LocalChanges local_changes, const Engine& engine, const Execution& execution);

}  // namespace wdelta
