// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/engine.hpp"

#include <filesystem>
#include <vector>

namespace wdelta {

/// Rebuilds a checkpoint from `base` and `deltas`, oldest first, in one pass however many there are. The deltas are
/// files, and `output` a file, or directories, and `output` a directory that does not exist or is empty. Throws
/// base_mismatch when a delta applies to something else than what `base` is or the delta before it makes, corrupt when
/// a delta is damaged. The output appears whole or not at all.
void apply_checkpoint(const Checkpoint& base, const std::vector<std::filesystem::path>& deltas,
                      const std::filesystem::path& output, const Engine& engine, const Execution& execution);

}  // namespace wdelta
