// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/engine.hpp"
#include "repo/repository.hpp"

#include <memory>

namespace wdelta {

/// The checkpoint that a commit holds, to be read like one on disk; its files are rebuilt while they are read. What
/// `execution` points to must outlive it.
Checkpoint checkpoint_of(std::shared_ptr<const Repository> repository, const Commit& commit, const Engine& engine,
                         const Execution& execution);

}  // namespace wdelta
