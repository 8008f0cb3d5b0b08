// SPDX-License-Identifier: Apache-2.0
#include "engine/block_chain.hpp"

#include "base/error.hpp"

#include <algorithm>

namespace wdelta {

BlockChain::BlockChain(const Engine& engine) : engine_(&engine), decoder_(engine) {}

void BlockChain::begin(ElementType type) {
  type_ = type;
  for (auto& steps : steps_) steps.clear();
}

void BlockChain::add(const Place& place, std::span<const std::uint8_t> coded) {
  if (!coded.empty()) add(place.block, {place.delta, coded});
}

void BlockChain::add(const Place& place, const GroupTables& group, std::uint64_t in_group,
                     const ClassedChanges& changes) {
  add(place.block, {place.delta, {}, &group, in_group, changes});
}

void BlockChain::add(std::size_t block, const Step& step) {
  if (steps_.size() <= block) steps_.resize(block + 1);
  steps_[block].push_back(step);
}

void BlockChain::apply(std::size_t block, std::span<std::uint8_t> elements) {
  if (block >= steps_.size()) return;
  std::span<const Step> left = steps_[block];
  while (!left.empty()) {
    at_ = left.front().delta;
    std::size_t taken = 1;
    if (left.front().skips_rows()) {
      apply_to_kept_rows(left.front(), elements);
    } else if (left.front().is_in_classes()) {
      const auto other =
          std::ranges::find_if(left, [](const Step& step) { return !step.is_in_classes() || step.skips_rows(); });
      taken = std::min<std::size_t>(static_cast<std::size_t>(other - left.begin()), k_most_chained);
      apply_classed(left.first(taken), elements);
    } else {
      decoder_.apply(left.front().coded, type_, elements);
    }
    left = left.subspan(taken);
  }
}

// Where the blocks before in its strip have come.
void BlockChain::go_on_with_strip(const Step& step, ClassedChanges& changes) {
  const Strips strips = step.group->shape().strips();
  const IndexRange blocks = strips.blocks_of(strips.of(step.in_group));
  changes.blocks_left = static_cast<std::uint32_t>(blocks.end - step.in_group);
  if (strips_.size() <= step.delta) strips_.resize(step.delta + 1);
  Strip& strip = strips_[step.delta];
  if (step.in_group == blocks.first) {
    strip.progress = {};
  } else if (strip.next != step.in_group) {
    throw Error(Fault::internal, "", "blocks are patched from the middle of a strip on");
  }
  strip.next = changes.blocks_left == 1 ? 0 : step.in_group + 1;
  changes.progress = &strip.progress;
}

void BlockChain::apply_classed(std::span<const Step> steps, std::span<std::uint8_t> elements) {
  const auto element_count = static_cast<std::uint32_t>(elements.size() / type_.width_bytes);
  together_.clear();
  for (const Step& step : steps) {
    ClassedChanges& changes = together_.emplace_back(step.changes);
    go_on_with_strip(step, changes);
    const std::uint64_t begin = step.in_group * k_block_elements;
    changes.flips = flips_.expand(together_.size() - 1, *step.group, {begin, begin + element_count});
  }
  const std::size_t right = chain_.apply(engine_->classed(type_), together_, elements.data(), element_count);
  if (right == steps.size()) return;
  strips_.clear();
  at_ = steps[right].delta;
  refuse_changes();
}

// What is left of a block is to the kernels as if there were smaller blocks.
void BlockChain::apply_to_kept_rows(const Step& step, std::span<std::uint8_t> elements) {
  const ClassedKernels& kernels = engine_->classed(type_);
  ClassedChanges changes = step.changes;
  go_on_with_strip(step, changes);
  const bool is_last = changes.blocks_left == 1;
  changes.blocks_left = 2;
  for (const ElementRange& kept : step.group->kept_in(step.in_group)) {
    const std::uint64_t begin = kept.begin - step.in_group * k_block_elements;
    changes.flips = flips_.expand(0, *step.group, kept);
    kernels.apply(elements.data() + begin * type_.width_bytes, static_cast<std::uint32_t>(kept.size()), &changes);
  }
  if (!is_last) return;
  changes.blocks_left = 1;
  if (kernels.apply(elements.data(), 0, &changes)) return;
  strips_.clear();
  refuse_changes();
}

}  // namespace wdelta
