// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"

#include <chrono>
#include <filesystem>

namespace wdelta {

/// Waits until nothing in a checkpoint on disk has changed for so long and nothing shows that it is still being
/// written (a shard that its index names and that is not there, weights shorter than their header says); opens it.
/// Throws interrupted when told to stop, not_found when there is nothing at `path`; and what else Checkpoint::open()
/// with Shards::required throws once that has not changed for so long either.
Checkpoint open_when_stable(const std::filesystem::path& path, const PathFilter& filter, std::chrono::seconds still,
                            const Execution& execution);

}  // namespace wdelta
