// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/tensor_plan.hpp"
#include "engine/classed_decoder.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// What all steps of a thread decode batches with: batches that nobody needs any more leave their memory to the next.
struct BatchDecoder {
  explicit BatchDecoder(const Engine& with) : engine(&with) {}

  const Engine* engine;
  ClassedDecoder decoder;
  std::vector<std::unique_ptr<DecodedBatch>> idle;
};

/// What one step of a tensor's plan says of its blocks, which are asked for one after the other: of the groups that
/// they are in it keeps the tables, and batches decoded until all their blocks were there. One per thread and step.
class StepBlocks {
 public:
  /// `batches` must outlive it.
  explicit StepBlocks(BatchDecoder& batches) : with_(&batches) {}

  /// The next blocks to be asked for: of this step and tensor, from number `first` up to but not including `end`.
  /// Whatever was given out before is void, and what is about blocks before them is forgotten.
  void begin(const TensorPlan::Step& step, const Tensor& tensor, std::uint64_t first, std::uint64_t end);
  /// Forgets batches that end before that block, and nothing else.
  void forget_batches_before(std::uint64_t block);

  enum class Coding { same, alone, classed };
  /// Throws corrupt, with an empty object, as all here do where the delta is not as wdelta-delta(5) says.
  Coding coding_of(std::uint64_t block);
  /// Of a block that is coded alone: BlockDecoder takes them. All stay where they are until the next begin().
  std::span<const std::uint8_t> bytes_of(std::uint64_t block);

  struct Classed {
    const GroupTables* group;
    std::uint64_t in_group;
    const ClassedChanges* changes;  ///< of its strip
  };
  /// Of a block that is in a classed strip, whether it has changes or not.
  Classed classed(std::uint64_t block);

  /// What batches that are kept take.
  std::size_t kept_bytes() const;

 private:
  struct Group {
    std::size_t index;
    std::unique_ptr<const GroupTables> tables;
  };
  struct Batch {
    const GroupTables* tables;
    std::uint64_t first_block;
    std::uint64_t end;
    std::unique_ptr<DecodedBatch> decoded;
  };
  const EntryGroup& entry_group(std::size_t index) const { return step_.entry->groups()[index]; }
  const GroupTables* tables_of(std::size_t group_index);
  const Batch* kept_batch(std::uint64_t block) const;
  void read();

  BatchDecoder* with_;
  TensorPlan::Step step_{};
  const Tensor* tensor_ = nullptr;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::vector<Group> groups_;  // those that have parameters
  std::vector<Batch> batches_;
  bool is_read_ = false;  // since begin()
  // Bytes of the delta from coded_begin_ on, and as many as are there.
  Buffer buffer_;
  std::span<const std::uint8_t> coded_;
  std::uint64_t coded_begin_ = 0;
};

}  // namespace wdelta
