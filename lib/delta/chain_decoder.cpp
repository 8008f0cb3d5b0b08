// SPDX-License-Identifier: Apache-2.0
#include "delta/chain_decoder.hpp"

#include "base/error.hpp"
#include "delta/tensor_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string_view>
#include <utility>

namespace wdelta {
namespace {

// As many as a delta's tables are worth bringing into the cache for.
constexpr std::uint64_t k_blocks_at_a_time = 8;
// Of changes, so that memory stays bounded however long the chain is; more where blocks are dense, but not of more than
// one step then.
constexpr std::size_t k_kept_bytes = std::size_t{2} << 20;
// How many batches a step decodes at once at least, where its group has them. Each of several steps has tables of its
// own, which two batches bring into the cache once; more of them would themselves be out of the cache until their turn.
constexpr std::size_t k_least_at_once = 2;

[[noreturn]] void refuse(const Error& error, const TensorPlan::Step& step, std::string_view tensor,
                         std::uint64_t block) {
  throw Error(error.fault(), step.delta->name(), fmt::format("tensor {:?}, block {}: {}", tensor, block, error.what()));
}

}  // namespace

// Blocks next to each other, in memory.
struct ChainDecoder::Blocks {
  const Tensor* tensor;
  std::uint64_t first;  // number in the tensor
  std::span<std::uint8_t> bytes;

  std::size_t count() const { return (bytes.size() + block_bytes(*tensor) - 1) / block_bytes(*tensor); }
  std::span<std::uint8_t> of(std::size_t i) const {
    const auto begin = static_cast<std::size_t>(i * block_bytes(*tensor));
    return bytes.subspan(begin, std::min<std::size_t>(block_bytes(*tensor), bytes.size() - begin));
  }
};

void ChainDecoder::apply(const Steps& steps, const Tensor& tensor, std::uint64_t first_block,
                         std::span<std::uint8_t> blocks) {
  while (at_.size() < steps.size()) at_.emplace_back(*batches_);
  made_ = nullptr;
  while (!blocks.empty()) {
    const auto size_bytes = std::min<std::size_t>(blocks.size(), k_blocks_at_a_time * block_bytes(tensor));
    const Blocks together{&tensor, first_block, blocks.first(size_bytes)};
    for (std::size_t step = 0; step < steps.size();) {
      chain_.begin(element_type(tensor));
      const std::size_t first_step = std::exchange(step, add_steps(steps, step, together));
      apply_steps(steps, together);
      // What the next steps or blocks decode has their memory.
      for (std::size_t i = first_step; i < step; ++i) at_[i].forget_batches_before(first_block + together.count());
    }
    first_block += together.count();
    blocks = blocks.subspan(size_bytes);
  }
  made_ = &steps;
  next_block_ = first_block;
}

// Steps from that one on, as many as are kept at once. Returns the first that is left.
std::size_t ChainDecoder::add_steps(const Steps& steps, std::size_t first_step, const Blocks& blocks) {
  std::size_t end = first_step;
  std::size_t kept_bytes = 0;
  while (end < steps.size() && end < first_step + k_most_chained && kept_bytes < k_kept_bytes) {
    want_step(steps, end, blocks);
    kept_bytes += at_[end++].kept_bytes();
  }
  want_more({first_step, end}, kept_bytes);
  decode_wanted(steps, {first_step, end}, blocks);
  for (std::size_t step = first_step; step < end; ++step) add_step(steps, step, blocks);
  return end;
}

// Where steps want few batches, those that come next are decoded with them.
void ChainDecoder::want_more(const IndexRange& steps, std::size_t kept_bytes) {
  const std::size_t at_once =
      std::max<std::size_t>(k_least_at_once, ClassedDecoder::k_at_once / (steps.end - steps.first));
  for (std::size_t step = steps.first; step < steps.end; ++step) {
    StepBlocks& at = at_[step];
    while (at.wanted_count() > 0 && at.wanted_count() < at_once && kept_bytes < k_kept_bytes) {
      const std::size_t before = at.kept_bytes();
      if (!at.want_next(k_kept_bytes - kept_bytes)) break;
      kept_bytes += at.kept_bytes() - before;
    }
  }
}

void ChainDecoder::want_step(const Steps& steps, std::size_t index, const Blocks& blocks) {
  StepBlocks& at = at_[index];
  at.begin(steps[index], *blocks.tensor, blocks.first, blocks.first + blocks.count());
  for (std::uint64_t block = blocks.first; block < blocks.first + blocks.count(); ++block) {
    try {
      if (at.coding_of(block) == StepBlocks::Coding::classed) at.want(block);
    } catch (const Error& error) {
      refuse(error, steps[index], blocks.tensor->name, block);
    }
  }
}

void ChainDecoder::decode_wanted(const Steps& steps, const IndexRange& wanted, const Blocks& blocks) {
  wanted_.clear();
  for (std::size_t step = wanted.first; step < wanted.end; ++step) at_[step].list_wanted(step, wanted_);
  const bool are_all_right = batches_->decode(wanted_, [&](const Error& error, const WantedBatch& batch) {
    refuse(error, steps[batch.step], blocks.tensor->name, batch.block);
  });
  for (std::size_t step = wanted.first; step < wanted.end; ++step) at_[step].keep_wanted(are_all_right);
}

void ChainDecoder::add_step(const Steps& steps, std::size_t index, const Blocks& blocks) {
  StepBlocks& at = at_[index];
  for (std::size_t i = 0; i < blocks.count(); ++i) {
    const std::uint64_t block = blocks.first + i;
    try {
      switch (at.coding_of(block)) {
        case StepBlocks::Coding::same:
          break;
        case StepBlocks::Coding::alone:
          chain_.add({i, index}, at.bytes_of(block));
          break;
        case StepBlocks::Coding::classed: {
          const StepBlocks::Classed classed = at.classed(block);
          chain_.add({i, index}, *classed.group, classed.in_group, *classed.changes);
          break;
        }
      }
    } catch (const Error& error) {
      refuse(error, steps[index], blocks.tensor->name, block);
    }
  }
}

void ChainDecoder::apply_steps(const Steps& steps, const Blocks& blocks) {
  for (std::size_t i = 0; i < blocks.count(); ++i) {
    try {
      chain_.apply(i, blocks.of(i));
    } catch (const Error& error) {
      refuse(error, steps[chain_.at()], blocks.tensor->name, blocks.first + i);
    }
  }
}

}  // namespace wdelta
