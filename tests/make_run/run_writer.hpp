// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "make_run/layout.hpp"
#include "make_run/model_shape.hpp"
#include "make_run/weights.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace wdelta::make_run {

struct RunOptions {
  std::filesystem::path directory;
  std::uint64_t size_bytes = std::uint64_t{64} << 20;
  std::size_t shard_count = 4;
  unsigned thread_count = 1;
  Training training;
};

/// Writes checkpoints of one training run, each in a directory of its own. The bytes depend on the size, the shard
/// count and the training only: not on the thread count, nor on which steps were written before.
class RunWriter {
 public:
  explicit RunWriter(RunOptions options);

  /// Writes step-NNNN and says how the weights moved since the step before. `step` is at least 1. Memory: 1 MiB and one
  /// row per thread. Throws std::runtime_error, also if that directory exists.
  Movement write(std::uint64_t step) const;

  std::filesystem::path step_directory(std::uint64_t step) const;
  const ModelShape& shape() const { return shape_; }
  std::size_t shard_count() const { return shards_.size(); }
  std::uint64_t weight_bytes() const;

 private:
  /// Some rows of one tensor: what a thread makes and writes at a time.
  struct Piece {
    std::size_t shard = 0;
    PlacedTensor placed;
    std::uint64_t first_row = 0;
    std::uint64_t row_count = 0;
  };

  Movement write_weights(std::uint64_t step) const;
  void write_side_files(std::uint64_t step) const;

  RunOptions options_;
  ModelShape shape_;
  std::vector<TensorPlan> plans_;
  std::vector<ShardLayout> shards_;
  std::vector<Piece> pieces_;
};

}  // namespace wdelta::make_run
