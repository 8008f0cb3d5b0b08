// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "engine/engine.hpp"
#include "repo/repository.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace wdelta {

/// What the stretch becomes: one delta from the commit before it, or files stored whole, compressed or not.
enum class SquashInto { delta, anchor, compressed_anchor };
/// Whether to write anything, or only to say what would be given up.
enum class SquashMode { carry_out, dry_run };

struct SquashReport {
  std::vector<Digest> kept;      ///< commits of the stretch that stay, oldest first; the last is its end
  std::vector<Digest> squashed;  ///< commits of the stretch that are given up, oldest first
  std::uint64_t stored_bytes = 0;
};

/// Folds the commits behind `from` (or from the first one) up to `to`. Commits in between are given up, but for those
/// that a tag or branch names and those where branches part; each that stays gets a delta from the one before that
/// stays. All other commits that were built over what is given up get the new recipes too. Nothing is removed here:
/// commits that are given up can be pulled until gc takes their bytes. Ids do not change. Reads and writes as a stream.
/// Throws usage when `from` is no ancestor of `to`.
SquashReport squash(Repository& repository, const std::optional<Digest>& from, const Digest& to, SquashInto into,
                    SquashMode mode, const Engine& engine, const Execution& execution);

}  // namespace wdelta
