// SPDX-License-Identifier: Apache-2.0
#include "engine/classed_encoder.hpp"
#include "engine/group.hpp"
#include "engine/group_changes.hpp"
#include "engine/sparse.hpp"

#include <algorithm>
#include <array>

namespace wdelta {
namespace {

// Up to this many changes in a group its parameters may cost more than they save: both ways are tried.
constexpr std::size_t k_few_changes = 512;

/// One block between the pass that finds its changes and the one that codes them.
struct GatheredBlock {
  BlockSummary summary;
  bool wants_ranks = false;
  // The block as it is coded alone, where that may be smaller.
  bool is_only_alone = false;
  BlockMode alone_mode = BlockMode::same;
  std::size_t alone_begin = 0;
  std::size_t alone_end = 0;

  bool is_classed() const { return !is_only_alone && summary.changes != 0; }
  std::size_t alone_bytes() const { return alone_end - alone_begin; }
};

}  // namespace

void CodedGroup::clear() {
  parameters.clear();
  blocks.clear();
  blocks_in_strip = 1;
  strips_in_batch = 1;
  reference = 0;
  batch_bytes.clear();
  bytes.clear();
}

struct GroupEncoder::Scratch {
  template <class T>
  static std::unique_ptr<T[]> room(std::size_t count) {
    return std::make_unique_for_overwrite<T[]>(count);
  }
  // Of one block.
  std::unique_ptr<std::uint16_t[]> positions = room<std::uint16_t>(k_block_elements + 64);
  std::unique_ptr<std::byte[]> steps = room<std::byte>((k_block_elements + 64) * sizeof(std::uint32_t));
  std::unique_ptr<std::uint16_t[]> ranks = room<std::uint16_t>(k_block_elements + 64);
  std::unique_ptr<std::uint8_t[]> change_classes = room<std::uint8_t>(k_block_elements + 64);
  std::array<std::uint32_t, k_most_classes> members;
  // Of the group.
  ElementType type;
  bool is_classed = false;    // else its blocks are only coded alone
  bool may_be_alone = false;  // some block of many changes may be smaller alone
  std::vector<GatheredBlock> blocks;
  std::vector<std::uint8_t> alone;
  GroupChanges changes;
  ClassedEncoder classed;

  GatheredBlock& begin_block(std::uint32_t block_elements) {
    changes.begin_block(block_elements);
    GatheredBlock& block = blocks.emplace_back();
    block.alone_begin = block.alone_end = alone.size();
    return block;
  }
  std::span<const GatheredBlock> blocks_of(const IndexRange& range) const {
    return std::span(blocks).subspan(range.first, range.end - range.first);
  }
};

GroupEncoder::GroupEncoder(const Engine& engine, BlockChoice choice)
    : blocks_(engine, choice), engine_(&engine), choice_(choice), scratch_(std::make_unique<Scratch>()) {}
GroupEncoder::~GroupEncoder() = default;
GroupEncoder::GroupEncoder(GroupEncoder&&) noexcept = default;

void GroupEncoder::begin(ElementType type, const MatrixPlace& place, ExpectedElements expected) {
  Scratch& scratch = *scratch_;
  scratch.type = type;
  scratch.may_be_alone = false;
  scratch.blocks.clear();
  scratch.alone.clear();
  scratch.changes.begin(type, place, expected);
  const bool may_be_classed =
      choice_ == BlockChoice::automatic || choice_ == BlockChoice::unknown_bytes || choice_ == BlockChoice::classed;
  scratch.is_classed = may_be_classed && type.width_bytes <= 4;
}

void GroupEncoder::begin_run() { scratch_->changes.begin_run(); }

std::size_t GroupEncoder::block_count() const { return scratch_->blocks.size(); }

bool GroupEncoder::has_enough() const {
  return !scratch_->is_classed || scratch_->may_be_alone || scratch_->changes.has_enough();
}

template <class Bytes>
BlockSummary GroupEncoder::code_alone(Bytes& bytes) {
  GatheredBlock& block = scratch_->blocks.back();
  const BlockSummary summary = blocks_.encode(bytes.base(), bytes.next(), scratch_->type, scratch_->alone);
  block.alone_mode = summary.mode;
  block.alone_end = scratch_->alone.size();
  return summary;
}

// A tensor that starts afresh: what it starts from says nothing of its elements, but for those that are zeros too.
// Returns whether no more is asked of the block.
template <class Bytes>
bool GroupEncoder::is_told_from_zeros(std::uint32_t element_count, Bytes& bytes) {
  GatheredBlock& block = scratch_->blocks.back();
  block.summary = code_alone(bytes);
  block.is_only_alone = block.summary.changes > element_count / 2;
  scratch_->may_be_alone |= block.is_only_alone;
  return block.is_only_alone || block.summary.changes == 0;
}

// What its changes make of the newest block, all but their symbols. It may be the one with which classes are chosen.
template <class Bytes>
void GroupEncoder::weigh(const ComparedBlock& compared, Bytes& bytes) {
  Scratch& scratch = *scratch_;
  GatheredBlock& block = scratch.blocks.back();
  const auto changes = static_cast<std::uint32_t>(compared.positions.size());
  block.summary.changes = changes;
  const std::uint64_t largest = largest_step(compared.steps, changes, scratch.type.width_bytes);
  block.summary.largest_step = largest / 2 + largest % 2;
  scratch.changes.count(changes);
  if (!scratch.changes.has_classes())
    scratch.changes.look_at(*engine_, {bytes.base(), compared.positions, compared.steps});
  if (choice_ == BlockChoice::classed) return;
  // Few changes may not pay for parameters; text and tables have repeats that only zstd finds; what changes all over
  // may grow; and of bits that flip at random only a few steps are made. Few changes, such as those of a short last
  // block, are no reason for others to do without strips.
  const bool is_worth_it = choice_ == BlockChoice::unknown_bytes || scratch.changes.has_far_steps();
  const bool changes_all_over = changes > compared.element_count / 2;
  scratch.may_be_alone |= is_worth_it || (changes_all_over && changes > k_few_changes);
  const bool is_coded = block.alone_mode != BlockMode::same;
  if (!is_coded && (is_worth_it || changes_all_over || scratch.changes.change_count() <= k_few_changes))
    code_alone(bytes);
}

void GroupEncoder::add(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next) {
  struct {
    std::span<const std::uint8_t> from, to;
    std::span<const std::uint8_t> base() const { return from; }
    std::span<const std::uint8_t> next() const { return to; }
  } const bytes{base, next};
  Scratch& scratch = *scratch_;
  const auto count = static_cast<std::uint32_t>(next.size() / scratch.type.width_bytes);
  GatheredBlock& block = scratch.begin_block(count);
  if (!scratch.is_classed) {
    block.summary = code_alone(bytes);
    return;
  }
  if (choice_ != BlockChoice::classed && is_all_zeros(base) && is_told_from_zeros(count, bytes)) return;
  const BlockKernels& kernels = engine_->block(scratch.type);
  const bool is_ranked = scratch.changes.takes_ranks();
  const std::uint32_t changes =
      is_ranked ? kernels.find_ranked_changes(base.data(), next.data(), count, scratch.changes.bounds().data(),
                                              static_cast<std::uint32_t>(scratch.changes.bounds().size()),
                                              scratch.positions.get(), scratch.steps.get(), scratch.ranks.get(),
                                              scratch.change_classes.get(), scratch.members.data())
                : kernels.find_changes(base.data(), next.data(), count, scratch.positions.get(), scratch.steps.get());
  if (changes == 0) return;
  const std::span<const std::uint16_t> positions(scratch.positions.get(), changes);
  const void* const steps = scratch.steps.get();
  weigh({count, positions, steps, nullptr}, bytes);
  const std::size_t index = scratch.blocks.size() - 1;
  if (is_ranked) {
    scratch.changes.add(
        *engine_, index,
        RankedChanges{positions, steps, scratch.ranks.get(), scratch.change_classes.get(), scratch.members.data()});
  } else {
    scratch.changes.add(*engine_, index, FoundChanges{base, positions, steps});
  }
}

bool GroupEncoder::takes_compared(ElementType type) const {
  return (choice_ == BlockChoice::automatic || choice_ == BlockChoice::classed) && type.width_bytes <= 4;
}

void GroupEncoder::add(const ComparedBlock& compared, BlockBytes& bytes) {
  Scratch& scratch = *scratch_;
  scratch.begin_block(compared.element_count);
  const std::size_t changes = compared.positions.size();
  if (changes == 0) return;
  const auto may_be_from_zeros = [&] {
    return std::all_of(compared.contexts, compared.contexts + changes, [](std::uint8_t each) { return each == 0; });
  };
  if (choice_ != BlockChoice::classed && may_be_from_zeros() && is_all_zeros(bytes.base()) &&
      is_told_from_zeros(compared.element_count, bytes)) {
    return;
  }
  const bool is_ranked = scratch.changes.takes_ranks();
  weigh(compared, bytes);
  if (is_ranked) {
    scratch.blocks.back().wants_ranks = true;
  } else {
    scratch.changes.add(*engine_, scratch.blocks.size() - 1,
                        FoundChanges{bytes.base(), compared.positions, compared.steps});
  }
}

bool GroupEncoder::wants_ranks(std::size_t block) const { return scratch_->blocks[block].wants_ranks; }

const ClassBounds& GroupEncoder::bounds() const { return scratch_->changes.bounds(); }

void GroupEncoder::add_ranks(std::size_t block, const RankedChanges& ranked) {
  scratch_->changes.add(*engine_, block, ranked);
}

void GroupEncoder::finish(CodedGroup& group) {
  Scratch& scratch = *scratch_;
  group.clear();
  const auto append_alone = [&](const GatheredBlock& block) {
    const auto alone = std::span(scratch.alone).subspan(block.alone_begin, block.alone_bytes());
    group.bytes.insert(group.bytes.end(), alone.begin(), alone.end());
    group.batch_bytes.push_back(alone.size());
    group.blocks.push_back(block.summary);
    group.blocks.back().mode = block.alone_mode;
  };
  const auto append_all_alone = [&] {
    group.clear();
    for (const GatheredBlock& block : scratch.blocks) append_alone(block);
  };
  GroupChanges& changes = scratch.changes;
  if (!scratch.is_classed || changes.change_count() == 0) return append_all_alone();
  changes.choose_classes(*engine_);

  const CodingKernels& coding = engine_->kernels->coding;
  const Strips strips = changes.choose_strips(scratch.may_be_alone);
  GroupParameters parameters = changes.fit_parameters(*engine_, strips);
  group.blocks_in_strip = strips.blocks_in_strip;
  group.strips_in_batch = changes.choose_batches(strips, scratch.may_be_alone);
  scratch.classed.begin(parameters.classes, changes.symbols(), changes.batches());
  const bool are_together = group.blocks_in_strip > 1 || group.strips_in_batch > 1;
  bool any_classed = false;
  for (std::uint64_t first = 0; first < strips.count(); first += group.strips_in_batch) {
    const std::uint64_t last = std::min(first + group.strips_in_batch, strips.count()) - 1;
    const auto batch = scratch.blocks_of({strips.blocks_of(first).first, strips.blocks_of(last).end});
    const std::size_t before = group.bytes.size();
    if (std::ranges::any_of(batch, &GatheredBlock::is_classed)) scratch.classed.append_next(coding, group.bytes);
    const std::size_t size_bytes = group.bytes.size() - before;
    const GatheredBlock& block = batch.front();
    const bool is_smaller_alone = !are_together && block.alone_mode != BlockMode::same &&
                                  changes.change_count() > k_few_changes && block.alone_bytes() < size_bytes;
    if (block.is_only_alone || is_smaller_alone) {
      group.bytes.resize(before);
      append_alone(block);
      parameters.strips[first] = {};
      continue;
    }
    group.batch_bytes.push_back(size_bytes);
    for (const GatheredBlock& each : batch) {
      group.blocks.push_back(each.summary);
      group.blocks.back().mode = each.is_classed() ? BlockMode::classed : BlockMode::same;
    }
    any_classed |= size_bytes != 0;
  }
  if (any_classed) parameters.write(group.parameters, changes.reference());
  // Each classed block is smaller than alone, but together they may not pay for the parameters.
  const bool can_be_alone = std::ranges::all_of(scratch.blocks, [](const GatheredBlock& block) {
    return block.summary.changes == 0 || block.alone_mode != BlockMode::same;
  });
  if (can_be_alone && scratch.alone.size() <= group.bytes.size() + group.parameters.size()) append_all_alone();
  if (!group.parameters.empty()) group.reference = changes.enter(parameters, group.parameters.size());
}

}  // namespace wdelta
