// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "repo/repository.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// Whether to write anything, or only to say what would be done.
enum class GcMode { carry_out, dry_run };

struct GcReport {
  std::vector<Digest> given_up;  ///< squashed commits whose recipes were taken now
  std::size_t removed = 0;       ///< keys removed: objects, and documents of pushes that never came to their end
  std::uint64_t removed_bytes = 0;
  std::size_t planned = 0;  ///< keys that nothing needs, to be removed by a run after the grace time
  std::uint64_t planned_bytes = 0;
  /// The plan of an earlier run that still waits, where there is one. What it does not name of the planned keys waits
  /// for the next plan, which is made by the run that carries out this one.
  struct Waiting {
    std::size_t count = 0;  ///< of the planned keys
    std::uint64_t bytes = 0;
    std::chrono::seconds left{};  ///< until a run removes these
  };
  std::optional<Waiting> waiting;
};

/// Removes what nothing needs. Every commit that a branch or tag ever named stays in the log, and can be pulled unless
/// it was given up (squash).
///
/// What nothing needs is first written into a plan (wdelta-repository(5), "Garbage"); only a run at least `grace` later
/// by the store's clock walks again and removes what the plan names, still nothing needs, and nobody has put again
/// since. Pushes and pulls may go on all the while, if none takes longer than `grace`. With a grace of zero everything
/// is removed at once: only for when nobody else uses the repository. Throws corrupt, having removed nothing, when the
/// repository is damaged.
///
/// A dry run writes nothing, so that it goes by this machine's clock: the store's is read by writing.
GcReport collect_garbage(Repository& repository, std::chrono::seconds grace, GcMode mode, const Execution& execution);

}  // namespace wdelta
