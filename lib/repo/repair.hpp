// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "repo/repository.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace wdelta {

/// A file that a commit has and nothing makes any more.
struct MissingFile {
  Digest commit;
  FileIdentity file;
};

struct RepairReport {
  std::vector<FileIdentity> restored;  ///< with their places in the copy
  std::uint64_t stored_bytes = 0;
  std::size_t repaired_commits = 0;  ///< that can be pulled again
  std::vector<MissingFile> missing;  ///< what still cannot be made
};

/// Looks for files that commits need and that cannot be had: objects that are gone or cut short, references to models
/// that are gone. Stores whole those that `copy` has, told by their digests, and adds recipes for them. Where all files
/// of a commit can be made then, one book without recipes that cannot be followed takes the place of those that it had;
/// no other is removed. Only `commit` is looked at where one is given, else all but those that squash gave up. Objects
/// are told by their sizes; they are not read.
RepairReport repair(Repository& repository, const std::optional<Digest>& commit, const Checkpoint& copy,
                    const Execution& execution);

}  // namespace wdelta
