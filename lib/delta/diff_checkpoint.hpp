// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "delta/delta_list.hpp"
#include "delta/diff.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// What happened to one file between two checkpoints.
struct PlaceChange {
  enum class Kind { same, changed, added, removed };

  std::string path;
  Kind kind = Kind::same;
  std::uint64_t size_bytes = 0;  ///< of the file in next; in base when removed
  bool executable = false;
  Digest digest;                      ///< of the file in next
  std::optional<FileChange> tensors;  ///< of weights that were compared; removed is what no file of next has
};

struct CheckpointChange {
  std::vector<PlaceChange> places;  ///< ordered by path
  bool any() const;
};

/// Compares two checkpoints file by file, weights tensor by tensor. When both are single files they are compared
/// whatever their names. With `output` the delta is written there: a file when next is a single file, else a directory.
/// Throws local when a file changes while it is read.
CheckpointChange diff_checkpoints(const Checkpoint& base, const Checkpoint& next,
                                  const std::optional<std::filesystem::path>& output, BlockChoice choice,
                                  const Engine& engine, const Execution& execution);

}  // namespace wdelta
