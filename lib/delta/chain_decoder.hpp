// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/safetensors.hpp"
#include "delta/step_blocks.hpp"
#include "delta/tensor_plan.hpp"
#include "engine/block_chain.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// Takes blocks through all steps of a tensor's plan while they are in cache. Owns scratch memory; one per thread.
class ChainDecoder {
 public:
  using Steps = std::vector<TensorPlan::Step>;

  explicit ChainDecoder(const Engine& engine) : chain_(engine), batches_(std::make_unique<BatchDecoder>(engine)) {}

  /// Turns whole blocks of the tensor, the first of which has that number, from what the plan starts from into the
  /// result. It is the first of TensorPlan::strips_around(), or goes_on_at(). Throws what is wrong with a delta, with
  /// its name.
  void apply(const Steps& steps, const Tensor& tensor, std::uint64_t first_block, std::span<std::uint8_t> blocks);
  /// Whether that block comes behind those that were made last.
  bool goes_on_at(const Steps& steps, std::uint64_t block) const { return made_ == &steps && next_block_ == block; }

 private:
  struct Blocks;

  std::size_t add_steps(const Steps& steps, std::size_t first_step, const Blocks& blocks);
  void want_step(const Steps& steps, std::size_t index, const Blocks& blocks);
  void want_more(const IndexRange& steps, std::size_t kept_bytes);
  void decode_wanted(const Steps& steps, const IndexRange& wanted, const Blocks& blocks);
  void add_step(const Steps& steps, std::size_t index, const Blocks& blocks);
  void apply_steps(const Steps& steps, const Blocks& blocks);

  BlockChain chain_;
  std::unique_ptr<BatchDecoder> batches_;  // of all steps
  std::vector<StepBlocks> at_;             // of each step
  std::vector<WantedBatch> wanted_;
  const Steps* made_ = nullptr;  // the last, and the block behind
  std::uint64_t next_block_ = 0;
};

}  // namespace wdelta
