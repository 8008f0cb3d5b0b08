// SPDX-License-Identifier: Apache-2.0
// A model on the Hub as the first commit of a branch: wdelta-push(1), "A base from the Hub".
#pragma once

#include "base/execution.hpp"
#include "checkpoint/path_filter.hpp"
#include "repo/previous_checkpoint.hpp"
#include "repo/repository.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace wdelta {

/// copied: into the repository, by the service that keeps both. referred: the bytes stay where they are, and only
/// there.
enum class BaseKept { copied, referred };

struct HubBaseOptions {
  ModelRevision model;
  BaseKept kept = BaseKept::copied;
  PathFilter filter;                                ///< which of its files are taken
  std::vector<std::filesystem::path> local_copies;  ///< directories where its files may lie
};

/// What bringing in a base came to.
struct HubBaseReport {
  ModelCommit at;
  Digest id;  ///< of the commit made of it
  std::size_t file_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t copied_bytes = 0;    ///< that the service copied
  std::uint64_t referred_bytes = 0;  ///< that stay in the model
  std::uint64_t fetched_bytes = 0;   ///< that had to be read from the Hub, to know their digests
};

struct HubBase {
  Commit commit;
  RecipeBook book;
  FilesAtHand at_hand;  ///< so that nothing is fetched twice
  HubBaseReport report;
};

/// Makes a commit of a model and keeps it and what it needs; no branch names it yet. Whatever is taken for a file of
/// the model has the etag that the Hub lists. The same model at the same commit makes the same commit everywhere.
/// Throws unsupported when it is to be copied and the store cannot, corrupt when the Hub gives other bytes than it
/// lists.
HubBase bring_base(Repository& repository, const HubBaseOptions& options, const Execution& execution);

/// Throws usage, naming `branch`, unless the first commit before `tip` was made of that model, and of that commit where
/// one is named: a revision that may have moved meanwhile does not matter.
void require_begins_with(const Repository& repository, const Commit& tip, const std::string& branch,
                         const ModelRevision& model);

}  // namespace wdelta
