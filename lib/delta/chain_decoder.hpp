// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/kept_tables.hpp"
#include "delta/tensor_plan.hpp"
#include "engine/block.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// Takes blocks through all steps of a tensor's plan while they are in cache. Owns scratch memory; one per thread.
class ChainDecoder {
 public:
  using Steps = std::vector<TensorPlan::Step>;
  struct BlockRange {
    std::uint64_t first;
    std::uint64_t end;
  };

  explicit ChainDecoder(const Engine& engine) : decoder_(engine) {}

  /// Reads what the steps have of these blocks, which apply() is given afterwards.
  void read(const Steps& steps, const BlockRange& blocks);
  /// Turns one of them from what the plan starts from into the result. Throws what is wrong with a delta, with its
  /// name.
  void apply(const Steps& steps, const Tensor& tensor, std::uint64_t block, std::span<std::uint8_t> elements);

 private:
  // Of one step.
  struct AtStep {
    Buffer coded;
    std::uint64_t coded_begin = 0;  // in the delta
    KeptTables kept;
  };
  /// A block as one step has it.
  struct CodedBlock {
    std::size_t step;
    std::span<const std::uint8_t> bytes;
    const GroupTables* group;
    std::uint64_t in_group;

    bool is_in_classes() const { return group != nullptr && is_classed(group->parameters().blocks[in_group]); }
  };

  std::optional<CodedBlock> coded_block(const Steps& steps, std::size_t index, const Tensor& tensor,
                                        std::uint64_t block);

  BlockDecoder decoder_;
  std::vector<AtStep> at_;
  std::vector<CodedBlock> of_block_;
  std::vector<const GroupTables*> chain_;
};

}  // namespace wdelta
