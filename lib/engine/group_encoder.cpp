// SPDX-License-Identifier: Apache-2.0
#include "engine/change_symbols.hpp"
#include "engine/classed_encoder.hpp"
#include "engine/group.hpp"
#include "engine/held_blocks.hpp"
#include "engine/known_groups.hpp"
#include "engine/sign_mask_chooser.hpp"
#include "engine/sparse.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace wdelta {
namespace {

// Each takes time in chains of deltas, but next to none where little changes.
constexpr std::uint32_t most_classes(std::uint64_t changes, std::uint64_t elements) {
  return changes * 256 < elements ? k_most_classes : 12;
}
// Up to this many changes in a group its parameters may cost more than they save: both ways are tried.
constexpr std::size_t k_few_changes = 512;
// About so many changes make a batch: what it takes beside them is next to nothing then, and they stay in cache.
constexpr std::size_t k_batch_changes = 4096;
// Classes are chosen once this many changes have been seen, or where they are few so many blocks with changes. These
// are held back.
constexpr std::uint64_t k_telling_changes = 768;
constexpr std::size_t k_most_held_blocks = 32;
// What a group's parameters take is little then, and further on in a tensor they may fit less.
constexpr std::size_t k_enough_changes = 65536;

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
  MatrixPlace place;
  ExpectedElements expected{};
  std::uint64_t element_count = 0;  // of the blocks so far
  bool is_classed = false;          // else its blocks are only coded alone
  bool has_far_steps = false;       // of one byte: all that there are have a code in a sparse block
  bool may_be_alone = false;        // some block of many changes may be smaller alone
  ClassChooser chooser;
  SignMaskChooser sign_mask_chooser;
  std::optional<ClassBounds> bounds;
  HeldBlocks held;
  std::vector<GatheredBlock> blocks;
  ChangeSymbols symbols;
  std::vector<std::uint8_t> alone;
  std::size_t change_count = 0;
  std::vector<std::size_t> batches;  // of how many strips with changes each is that has some
  ClassedEncoder classed;
  KnownGroups known;                         // of the run
  const KnownGroups::Group* like = nullptr;  // what the parameters refer to

  void clear();
  GatheredBlock& begin_block(std::uint32_t block_elements);
  std::uint64_t expected_elements() const;
  void choose_classes(const Engine& engine);
  void keep(const Engine& engine, std::size_t block, const FoundChanges& changes);
  void add_ranks(const Engine& engine, std::size_t block, const RankedChanges& ranked);
  Strips choose_strips() const;
  GroupParameters fit_parameters(const CodingKernels& coding, const Strips& strips);
  std::uint32_t choose_batches(const Strips& strips);
  std::size_t list_batches(std::size_t strips_in_batch);
  std::span<const GatheredBlock> blocks_of(const IndexRange& range) const {
    return std::span(blocks).subspan(range.first, range.end - range.first);
  }
};

void GroupEncoder::Scratch::clear() {
  element_count = 0;
  chooser.clear();
  bounds.reset();
  has_far_steps = false;
  may_be_alone = false;
  held.clear();
  blocks.clear();
  alone.clear();
  change_count = 0;
}

// Of the whole group, if the rest of it changes as much.
std::uint64_t GroupEncoder::Scratch::expected_elements() const {
  const std::uint64_t wanted = k_enough_changes * element_count / change_count;
  return std::max(element_count, std::clamp(wanted, expected.least, expected.most));
}

void GroupEncoder::Scratch::choose_classes(const Engine& engine) {
  const std::uint64_t elements = expected_elements();
  // Of the first in a run: others may refer to it, and pay for its classes too.
  const std::uint64_t paying = known.has(type) ? elements : std::max(elements, expected.of_run);
  ClassChooser::Choice choice = chooser.choose(most_classes(change_count, element_count), paying);
  for (const auto& [of_type, number, reference] : known.groups()) {
    if (of_type != type) continue;
    const ClassChooser::Priced priced = chooser.price_of_known(reference.bounds, elements);
    const std::uint64_t cost = priced.cost + mismatch(priced.totals, reference);
    if (cost <= choice.cost) choice = {reference.bounds, cost};
  }
  bounds = std::move(choice.bounds);
  has_far_steps = type.width_bytes == 1 && chooser.has_far_steps();
  held.each(type.width_bytes, [&](std::size_t block, const FoundChanges& changes) {
    symbols.add(engine, type, *bounds, block, changes);
  });
  held.clear();
}

// Of a block that was found before there were classes.
void GroupEncoder::Scratch::keep(const Engine& engine, std::size_t block, const FoundChanges& changes) {
  if (bounds) {
    symbols.add(engine, type, *bounds, block, changes);
  } else {
    held.add(block, changes, type.width_bytes);
  }
}

void GroupEncoder::Scratch::add_ranks(const Engine& engine, std::size_t block, const RankedChanges& ranked) {
  const auto class_count = static_cast<std::uint32_t>(bounds->size()) + 1;
  symbols.add(engine.kernels->coding, type, class_count, block, ranked);
}

// Of one block each where one may be smaller alone.
Strips GroupEncoder::Scratch::choose_strips() const {
  Strips strips = {place.first_element / k_block_elements, blocks.size(),
                   may_be_alone ? 1 : usual_blocks_in_strip(change_count, element_count)};
  while (strips.blocks_in_strip > 1 && (strips.count() == blocks.size() || !symbols.can_make(strips)))
    strips.blocks_in_strip /= 2;
  return strips;
}

// Makes symbols of the changes.
GroupParameters GroupEncoder::Scratch::fit_parameters(const CodingKernels& coding, const Strips& strips) {
  symbols.make(coding, type, strips);
  GroupParameters parameters;
  parameters.bounds = *bounds;
  if (symbols.has_signs()) {
    parameters.mask = sign_mask_chooser.choose(symbols.signs(), element_count);
    if (!parameters.mask.is_empty()) symbols.flip_signs(coding, parameters.mask);
  }
  for (std::size_t k = 0; k <= bounds->size(); ++k) {
    parameters.classes.push_back(
        fitted(symbols.counts()[k], parameters.mask.is_empty() ? Signs::plain : Signs::masked));
  }
  parameters.strips.resize(strips.count());
  for (const StripSymbols& strip : symbols.strips()) parameters.strips[strip.strip] = strip.counts;
  like =
      known.refer(type, symbols.counts(),
                  {most_gap_buckets(strips.blocks_in_strip), most_magnitude_buckets(type), !parameters.mask.is_empty()},
                  parameters);
  return parameters;
}

// Of strips with many changes each is one, and so is a block where one may be smaller alone.
std::uint32_t GroupEncoder::Scratch::choose_batches(const Strips& strips) {
  std::size_t strips_in_batch = 1;
  if (!may_be_alone) {
    const std::size_t worth = std::max<std::size_t>(1, (change_count + k_batch_changes / 2) / k_batch_changes);
    strips_in_batch = std::min<std::size_t>((strips.count() + worth - 1) / worth, k_most_strips_in_batch);
  }
  while (list_batches(strips_in_batch) > k_most_batch_changes) strips_in_batch = (strips_in_batch + 1) / 2;
  return static_cast<std::uint32_t>(strips_in_batch);
}

// Returns how many changes the largest has.
std::size_t GroupEncoder::Scratch::list_batches(std::size_t strips_in_batch) {
  batches.clear();
  std::size_t most = 0;
  std::size_t changes = 0;
  std::optional<std::size_t> batch;
  for (const StripSymbols& strip : symbols.strips()) {
    if (batch != strip.strip / strips_in_batch) {
      batch = strip.strip / strips_in_batch;
      batches.push_back(0);
      changes = 0;
    }
    ++batches.back();
    most = std::max(most, changes += strip.change_count);
  }
  return most;
}

GroupEncoder::GroupEncoder(const Engine& engine, BlockChoice choice)
    : blocks_(engine, choice), engine_(&engine), choice_(choice), scratch_(std::make_unique<Scratch>()) {}
GroupEncoder::~GroupEncoder() = default;
GroupEncoder::GroupEncoder(GroupEncoder&&) noexcept = default;

void GroupEncoder::begin(ElementType type, const MatrixPlace& place, ExpectedElements expected) {
  Scratch& scratch = *scratch_;
  scratch.clear();
  scratch.type = type;
  scratch.place = place;
  scratch.expected = expected;
  const bool may_be_classed =
      choice_ == BlockChoice::automatic || choice_ == BlockChoice::unknown_bytes || choice_ == BlockChoice::classed;
  scratch.is_classed = may_be_classed && type.width_bytes <= 4;
  scratch.symbols.begin(type.kind == ElementKind::floating ? place : MatrixPlace());
}

void GroupEncoder::begin_run() { scratch_->known.begin_run(); }

std::size_t GroupEncoder::block_count() const { return scratch_->blocks.size(); }

bool GroupEncoder::has_enough() const {
  return !scratch_->is_classed || scratch_->may_be_alone || scratch_->change_count >= k_enough_changes;
}

GatheredBlock& GroupEncoder::Scratch::begin_block(std::uint32_t block_elements) {
  element_count += block_elements;
  GatheredBlock& block = blocks.emplace_back();
  block.alone_begin = block.alone_end = alone.size();
  return block;
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
  scratch.change_count += changes;
  // Few changes may not pay for parameters; text and tables have repeats that only zstd finds; what changes all over
  // may grow; and of bits that flip at random only a few steps are made. Few changes, such as those of a short last
  // block, are no reason for others to do without strips.
  const auto try_alone = [&](bool is_worth_it) {
    if (is_worth_it && block.alone_mode == BlockMode::same) code_alone(bytes);
  };
  if (choice_ != BlockChoice::classed) {
    const bool is_worth_it = choice_ == BlockChoice::unknown_bytes || scratch.has_far_steps;
    const bool changes_all_over = changes > compared.element_count / 2;
    scratch.may_be_alone |= is_worth_it || (changes_all_over && changes > k_few_changes);
    try_alone(is_worth_it || changes_all_over || scratch.change_count <= k_few_changes);
  }

  if (!scratch.bounds) {
    scratch.chooser.count(bytes.base(), scratch.type, compared.positions, compared.steps);
    if (scratch.chooser.change_count() >= k_telling_changes || scratch.held.count() + 1 >= k_most_held_blocks) {
      scratch.choose_classes(*engine_);
      if (choice_ != BlockChoice::classed && scratch.has_far_steps) {
        scratch.may_be_alone = true;
        try_alone(true);
      }
    }
  }
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
  const bool is_ranked = scratch.bounds.has_value();
  const std::uint32_t changes =
      is_ranked ? kernels.find_ranked_changes(base.data(), next.data(), count, scratch.bounds->data(),
                                              static_cast<std::uint32_t>(scratch.bounds->size()),
                                              scratch.positions.get(), scratch.steps.get(), scratch.ranks.get(),
                                              scratch.change_classes.get(), scratch.members.data())
                : kernels.find_changes(base.data(), next.data(), count, scratch.positions.get(), scratch.steps.get());
  if (changes == 0) return;
  const std::span<const std::uint16_t> positions(scratch.positions.get(), changes);
  const void* const steps = scratch.steps.get();
  weigh({count, positions, steps, nullptr}, bytes);
  const std::size_t index = scratch.blocks.size() - 1;
  if (is_ranked) {
    scratch.add_ranks(*engine_, index,
                      {positions, steps, scratch.ranks.get(), scratch.change_classes.get(), scratch.members.data()});
  } else {
    scratch.keep(*engine_, index, {base, positions, steps});
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
  const bool is_ranked = scratch.bounds.has_value();
  weigh(compared, bytes);
  if (is_ranked) {
    scratch.blocks.back().wants_ranks = true;
  } else {
    scratch.keep(*engine_, scratch.blocks.size() - 1, {bytes.base(), compared.positions, compared.steps});
  }
}

bool GroupEncoder::wants_ranks(std::size_t block) const { return scratch_->blocks[block].wants_ranks; }

const ClassBounds& GroupEncoder::bounds() const { return *scratch_->bounds; }

void GroupEncoder::add_ranks(std::size_t block, const RankedChanges& ranked) {
  scratch_->add_ranks(*engine_, block, ranked);
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
  if (!scratch.is_classed || scratch.change_count == 0) return append_all_alone();
  if (!scratch.bounds) scratch.choose_classes(*engine_);

  const CodingKernels& coding = engine_->kernels->coding;
  const Strips strips = scratch.choose_strips();
  GroupParameters parameters = scratch.fit_parameters(coding, strips);
  group.blocks_in_strip = strips.blocks_in_strip;
  group.strips_in_batch = scratch.choose_batches(strips);
  scratch.classed.begin(parameters.classes, scratch.symbols, scratch.batches);
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
                                  scratch.change_count > k_few_changes && block.alone_bytes() < size_bytes;
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
  const KnownGroups::Group* const like = scratch.like;
  if (any_classed) parameters.write(group.parameters, like != nullptr ? &like->reference : nullptr);
  // Each classed block is smaller than alone, but together they may not pay for the parameters.
  const bool can_be_alone = std::ranges::all_of(scratch.blocks, [](const GatheredBlock& block) {
    return block.summary.changes == 0 || block.alone_mode != BlockMode::same;
  });
  if (can_be_alone && scratch.alone.size() <= group.bytes.size() + group.parameters.size()) append_all_alone();
  if (group.parameters.empty()) return;
  if (like != nullptr) {
    group.reference = scratch.known.distance_to(*like);
  } else {
    scratch.known.add(scratch.type, parameters);
  }
}

}  // namespace wdelta
