// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "repo/repository.hpp"

#include <vector>

namespace wdelta {

/// Every commit that the repository has, whether a branch or tag leads to it or not: what a branch was moved away from,
/// what a branch that was deleted had, pushes that were killed before they had moved theirs. None comes before what was
/// pushed on top of it, else newest first; their distances say nothing. Where names lead, reads one manifest for 64
/// commits. Throws corrupt when one of them is damaged, or the parent of one is missing.
std::vector<CommitSummary> all_commits(const Repository& repository, const Execution& execution);

}  // namespace wdelta
