// SPDX-License-Identifier: Apache-2.0
#include "engine/bits.hpp"
#include "engine/change_symbols.hpp"
#include "engine/group.hpp"
#include "engine/sparse.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace wdelta {
namespace {

constexpr std::uint32_t k_classes_by_default = 12;
// Up to this many changes in a group its parameters may cost more than they save: both ways are tried.
constexpr std::size_t k_few_changes = 512;
// Classes are chosen once this many changes have been seen. Blocks before are held back.
constexpr std::uint64_t k_telling_changes = 768;
// Where a class's step symbols begin among its entries; gaps come first.
constexpr std::uint32_t k_step_entries = k_gap_buckets;
constexpr std::uint32_t k_class_entries = 256;

/// One block between the pass that finds its changes and the one that codes them.
struct GatheredBlock {
  BlockSummary summary;
  BlockSymbols symbols;  ///< where its classes are known
  // The block as it is coded alone, where that may be smaller.
  bool is_only_alone = false;
  BlockMode alone_mode = BlockMode::same;
  std::size_t alone_begin = 0;
  std::size_t alone_end = 0;
};

/// Blocks that wait for their classes, one behind the other in memory that is kept from group to group.
struct HeldBlocks {
  struct Block {
    std::size_t index;
    std::size_t base_bytes;
    std::size_t changes;
  };
  std::vector<Block> blocks;
  std::vector<std::uint8_t> base;
  std::vector<std::uint16_t> positions;
  std::vector<std::uint8_t> steps;

  void clear() {
    blocks.clear();
    base.clear();
    positions.clear();
    steps.clear();
  }
};

}  // namespace

void CodedGroup::clear() {
  parameters.clear();
  bytes.clear();
  blocks.clear();
}

struct GroupEncoder::Scratch {
  template <class T>
  static std::unique_ptr<T[]> room(std::size_t count) {
    return std::make_unique_for_overwrite<T[]>(count);
  }
  // Of one block.
  std::unique_ptr<std::uint16_t[]> positions = room<std::uint16_t>(k_block_elements + 64);
  std::unique_ptr<std::byte[]> steps = room<std::byte>((k_block_elements + 64) * sizeof(std::uint32_t));
  std::unique_ptr<std::uint16_t[]> gap_entries = room<std::uint16_t>(k_block_elements);
  std::unique_ptr<std::uint16_t[]> step_entries = room<std::uint16_t>(k_block_elements);
  std::unique_ptr<std::uint16_t[]> words = room<std::uint16_t>(2 * k_block_elements + 8);
  // Of the group.
  ElementType type;
  MatrixPlace place;
  std::uint64_t element_count = 0;
  bool is_classed = false;     // else its blocks are only coded alone
  bool has_far_steps = false;  // of one byte: all that there are have a code in a sparse block
  ClassChooser chooser;
  SignMaskChooser sign_mask_chooser;
  std::optional<ClassBounds> bounds;
  HeldBlocks held;
  std::vector<GatheredBlock> blocks;
  ChangeSymbols symbols;
  std::vector<std::uint8_t> alone;
  std::size_t change_count = 0;
  std::vector<EncodeEntry> entries;

  void clear();
  void choose_classes(const Engine& engine);
  void gather(const Engine& engine, std::size_t index, const FoundChanges& changes);
  GroupParameters fit_parameters();
  void append_block(const Engine& engine, const GatheredBlock& block, std::vector<std::uint8_t>& coded);
};

void GroupEncoder::Scratch::clear() {
  chooser.clear();
  bounds.reset();
  has_far_steps = false;
  held.clear();
  blocks.clear();
  alone.clear();
  change_count = 0;
}

void GroupEncoder::Scratch::choose_classes(const Engine& engine) {
  bounds = chooser.choose(k_classes_by_default, element_count);
  has_far_steps = type.width_bytes == 1 && chooser.has_far_steps();
  std::size_t base_at = 0;
  std::size_t change_at = 0;
  for (const HeldBlocks::Block& block : held.blocks) {
    gather(engine, block.index,
           {std::span(held.base).subspan(base_at, block.base_bytes),
            std::span(held.positions).subspan(change_at, block.changes),
            held.steps.data() + change_at * type.width_bytes});
    base_at += block.base_bytes;
    change_at += block.changes;
  }
  held.clear();
}

void GroupEncoder::Scratch::gather(const Engine& engine, std::size_t index, const FoundChanges& changes) {
  const auto first_element = static_cast<std::uint32_t>(index * k_block_elements);
  blocks[index].symbols = symbols.add(engine, type, *bounds, first_element, changes);
}

// Everything but the counts of blocks, and the tables to code with.
GroupParameters GroupEncoder::Scratch::fit_parameters() {
  GroupParameters parameters;
  parameters.bounds = *bounds;
  if (symbols.has_signs()) {
    parameters.mask = sign_mask_chooser.choose(symbols.signs(), place, element_count);
    if (!parameters.mask.is_empty()) symbols.take_signs();
  }
  entries.assign((bounds->size() + 1) * k_class_entries, 0);
  for (std::size_t k = 0; k <= bounds->size(); ++k) {
    const ClassCoding& coding = parameters.classes.emplace_back(
        fitted(symbols.counts()[k], parameters.mask.is_empty() ? Signs::plain : Signs::masked));
    if (!coding.is_used()) continue;
    fill_encode_entries(coding.gap_frequencies(), entries.data() + k * k_class_entries);
    fill_encode_entries(coding.step_frequencies(), entries.data() + k * k_class_entries + k_step_entries);
  }
  return parameters;
}

void GroupEncoder::Scratch::append_block(const Engine& engine, const GatheredBlock& block,
                                         std::vector<std::uint8_t>& coded) {
  const std::uint32_t changes = block.summary.changes;
  const std::uint32_t lanes = lanes_for(changes);
  // The first states carry raw bits: the decoder ends with them, and starts with nothing wasted.
  std::array<std::uint8_t, 16> payload{};
  const std::span<const std::uint8_t> raw = symbols.raw_of(block.symbols);
  const std::size_t in_states = std::min<std::size_t>(raw.size(), state_payload_bytes(lanes));
  std::copy_n(raw.data(), in_states, payload.data());
  std::array<std::uint32_t, 8> states{};
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::uint32_t three_bytes = 0;
    for (std::uint32_t k = 0; k < 3 && 15 * lane / 8 + k < payload.size(); ++k) {
      three_bytes |= std::uint32_t{payload[15 * lane / 8 + k]} << (8 * k);
    }
    states[lane] = 0x8000U | ((three_bytes >> (15 * lane % 8)) & 0x7fff);
  }

  const std::uint8_t* const gaps = symbols.gaps_of(block.symbols);
  const std::uint8_t* const steps_of_block = symbols.steps_of(block.symbols);
  std::uint32_t i = 0;
  for (std::uint32_t k = 0; k < k_most_classes; ++k) {
    const auto first_entry = static_cast<std::uint16_t>(k * k_class_entries);
    for (const std::uint32_t end = i + block.symbols.counts[k]; i < end; ++i) {
      gap_entries[i] = static_cast<std::uint16_t>(first_entry + gaps[i]);
      step_entries[i] = static_cast<std::uint16_t>(first_entry + k_step_entries + steps_of_block[i]);
    }
  }
  std::uint16_t* const words_end = words.get() + 2 * k_block_elements + 8;
  const std::uint16_t* const first_word = engine.kernels->coding.encode_symbols(
      entries.data(), gap_entries.get(), step_entries.get(), changes, lanes, states.data(), words_end);
  const auto append = [&](const void* from, std::size_t size_bytes) {
    const auto* const bytes = static_cast<const std::uint8_t*>(from);
    coded.insert(coded.end(), bytes, bytes + size_bytes);
  };
  // States are anything from 2^15 to 2^31: how many bits beyond 15, then the bits below the highest.
  BitWriter bits(coded);
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    bits.write(static_cast<std::uint32_t>(std::bit_width(states[lane])) - 16, 4);
  }
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const auto below = static_cast<std::uint32_t>(std::bit_width(states[lane])) - 1;
    bits.write(states[lane] - (1U << below), below);
  }
  bits.finish();
  append(first_word, static_cast<std::size_t>(words_end - first_word) * sizeof(std::uint16_t));
  append(raw.data() + in_states, raw.size() - in_states);
}

GroupEncoder::GroupEncoder(const Engine& engine, BlockChoice choice)
    : blocks_(engine, choice), engine_(&engine), choice_(choice), scratch_(std::make_unique<Scratch>()) {}
GroupEncoder::~GroupEncoder() = default;
GroupEncoder::GroupEncoder(GroupEncoder&&) noexcept = default;

void GroupEncoder::begin(ElementType type, const MatrixPlace& place, std::uint64_t element_count) {
  Scratch& scratch = *scratch_;
  scratch.clear();
  scratch.type = type;
  scratch.place = place;
  scratch.element_count = element_count;
  const bool may_be_classed =
      choice_ == BlockChoice::automatic || choice_ == BlockChoice::unknown_bytes || choice_ == BlockChoice::classed;
  scratch.is_classed = may_be_classed && type.width_bytes <= 4;
  scratch.symbols.begin(place.has_rows() && type.kind == ElementKind::floating ? SignKeeping::kept : SignKeeping::none);
}

void GroupEncoder::add(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next) {
  Scratch& scratch = *scratch_;
  GatheredBlock& block = scratch.blocks.emplace_back();
  block.alone_begin = block.alone_end = scratch.alone.size();
  const auto code_alone = [&] {
    const BlockSummary summary = blocks_.encode(base, next, scratch.type, scratch.alone);
    block.alone_mode = summary.mode;
    block.alone_end = scratch.alone.size();
    return summary;
  };
  if (!scratch.is_classed) {
    block.summary = code_alone();
    return;
  }
  const auto count = static_cast<std::uint32_t>(next.size() / scratch.type.width_bytes);
  if (choice_ != BlockChoice::classed && is_all_zeros(base)) {
    // A tensor that starts afresh: what it starts from says nothing of its elements, but for those that are zeros too.
    block.summary = code_alone();
    block.is_only_alone = block.summary.changes > count / 2;
    if (block.is_only_alone || block.summary.changes == 0) return;
  }
  const std::uint32_t changes =
      engine_->block(scratch.type)
          .find_changes(base.data(), next.data(), count, scratch.positions.get(), scratch.steps.get());
  if (changes == 0) return;
  block.summary.changes = changes;
  const std::uint64_t largest = largest_step(scratch.steps.get(), changes, scratch.type.width_bytes);
  block.summary.largest_step = largest / 2 + largest % 2;
  scratch.change_count += changes;
  // Few changes may not pay for parameters; text and tables have repeats that only zstd finds; what changes all over
  // may grow; and of bits that flip at random only a few steps are made.
  if (choice_ != BlockChoice::classed && block.alone_mode == BlockMode::same &&
      (scratch.change_count <= k_few_changes || choice_ == BlockChoice::unknown_bytes || changes > count / 2 ||
       scratch.has_far_steps)) {
    code_alone();
  }

  const std::span<const std::uint16_t> positions(scratch.positions.get(), changes);
  if (scratch.bounds) {
    return scratch.gather(*engine_, scratch.blocks.size() - 1, {base, positions, scratch.steps.get()});
  }
  scratch.chooser.count(base, scratch.type, positions, scratch.steps.get());
  const auto* const steps = reinterpret_cast<const std::uint8_t*>(scratch.steps.get());
  scratch.held.blocks.push_back({scratch.blocks.size() - 1, base.size(), changes});
  scratch.held.base.insert(scratch.held.base.end(), base.begin(), base.end());
  scratch.held.positions.insert(scratch.held.positions.end(), positions.begin(), positions.end());
  scratch.held.steps.insert(scratch.held.steps.end(), steps, steps + std::size_t{changes} * scratch.type.width_bytes);
  if (scratch.chooser.change_count() < k_telling_changes) return;
  scratch.choose_classes(*engine_);
  if (choice_ != BlockChoice::classed && scratch.has_far_steps && block.alone_mode == BlockMode::same) code_alone();
}

void GroupEncoder::finish(CodedGroup& group) {
  Scratch& scratch = *scratch_;
  group.clear();
  const auto alone_of = [&](const GatheredBlock& block) {
    return std::span(scratch.alone).subspan(block.alone_begin, block.alone_end - block.alone_begin);
  };
  const auto append_alone = [&](const GatheredBlock& block) {
    const auto alone = alone_of(block);
    group.bytes.insert(group.bytes.end(), alone.begin(), alone.end());
    group.blocks.push_back({alone.size(), block.summary});
    group.blocks.back().summary.mode = block.alone_mode;
  };
  const auto append_all_alone = [&] {
    group.clear();
    for (const GatheredBlock& block : scratch.blocks) append_alone(block);
  };
  if (!scratch.is_classed || scratch.change_count == 0) return append_all_alone();

  if (!scratch.bounds) scratch.choose_classes(*engine_);
  GroupParameters parameters = scratch.fit_parameters();
  bool any_classed = false;
  for (GatheredBlock& block : scratch.blocks) {
    const std::size_t before = group.bytes.size();
    if (block.is_only_alone) {
      append_alone(block);
      parameters.blocks.push_back({});
      continue;
    }
    if (block.summary.changes != 0) scratch.append_block(*engine_, block, group.bytes);
    const std::size_t size_bytes = group.bytes.size() - before;
    if (block.alone_mode != BlockMode::same && scratch.change_count > k_few_changes &&
        block.alone_end - block.alone_begin < size_bytes) {
      group.bytes.resize(before);
      append_alone(block);
      block.symbols.counts = {};
    } else {
      block.summary.mode = size_bytes == 0 ? BlockMode::same : BlockMode::classed;
      any_classed |= size_bytes != 0;
      group.blocks.push_back({size_bytes, block.summary});
    }
    parameters.blocks.push_back(block.symbols.counts);
  }
  if (any_classed) parameters.write(group.parameters);
  // Each classed block is smaller than alone, but together they may not pay for the parameters.
  const bool can_be_alone = std::ranges::all_of(scratch.blocks, [](const GatheredBlock& block) {
    return block.summary.changes == 0 || block.alone_mode != BlockMode::same;
  });
  if (can_be_alone && scratch.alone.size() <= group.bytes.size() + group.parameters.size()) append_all_alone();
}

}  // namespace wdelta
