// SPDX-License-Identifier: Apache-2.0
#include "engine/change_symbols.hpp"

#include "engine/block.hpp"

#include <algorithm>
#include <cstring>

namespace wdelta {
namespace {

// GCC makes vectors at -O2 of a copy of so many, of one of unknown length none. Up to so many entries behind the last
// are read and written.
constexpr std::size_t k_widened_at_a_time = 16;

void widen(const std::uint16_t* from, std::size_t count, std::uint32_t* to) {
  for (std::size_t i = 0; i < count; i += k_widened_at_a_time) {
    for (std::size_t k = 0; k < k_widened_at_a_time; ++k) to[i + k] = from[i + k];
  }
}

}  // namespace

ChangeSymbols::ChangeSymbols()
    : ranks_(std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements)),
      change_classes_(std::make_unique_for_overwrite<std::uint8_t[]>(k_block_elements)),
      strip_gaps_(std::make_unique_for_overwrite<std::uint32_t[]>(k_most_batch_changes + k_widened_at_a_time)),
      strip_steps_(std::make_unique_for_overwrite<std::uint8_t[]>(k_most_batch_changes * sizeof(std::uint32_t))),
      ordered_signs_(std::make_unique_for_overwrite<std::uint8_t[]>(k_most_batch_changes + 64)) {}

void ChangeSymbols::begin(const MatrixPlace& place) {
  has_signs_ = place.has_rows();
  if (has_signs_) signs_.begin(place);
  blocks_.clear();
  gaps_.clear();
  steps_.clear();
  strips_.clear();
  gap_symbols_.clear();
  step_symbols_.clear();
  classes_.clear();
  raw_.clear();
  counts_.fill({});
}

void ChangeSymbols::add(const Engine& engine, ElementType type, const ClassBounds& bounds, std::uint64_t block,
                        const FoundChanges& found, std::span<const std::uint16_t> positions) {
  const auto element_count = static_cast<std::uint32_t>(found.base.size() / type.width_bytes);
  const auto changes = static_cast<std::uint32_t>(found.positions.size());
  const auto bound_count = static_cast<std::uint32_t>(bounds.size());
  std::array<std::uint32_t, k_most_classes> members;
  engine.block(type).rank_changes(found.base.data(), element_count, bounds.data(), bound_count, found.positions.data(),
                                  changes, ranks_.get(), change_classes_.get(), members.data());
  add(*engine.kernels, type, bound_count + 1, block,
      {positions, found.steps, ranks_.get(), change_classes_.get(), members.data()});
}

void ChangeSymbols::add(const KernelTable& kernels, ElementType type, std::uint32_t class_count, std::uint64_t number,
                        const RankedChanges& ranked) {
  const auto changes = static_cast<std::uint32_t>(ranked.positions.size());
  class_count_ = class_count;
  Block& block = blocks_.emplace_back(Block{number});
  block.first_change = gaps_.size();
  block.change_count = changes;
  std::copy_n(ranked.members, k_most_classes, block.members.begin());
  // With room for what is written behind them, and for what widen() reads there.
  constexpr std::size_t k_room = 32;
  static_assert(k_widened_at_a_time <= k_room);
  std::uint16_t* const gaps = gaps_.extend(changes + k_room);
  const std::size_t steps_begin = steps_.size();
  std::uint8_t* const steps = steps_.extend(std::size_t{changes} * type.width_bytes + 64);
  const ChangesInOrder in_order = {ranked.classes, ranked.ranks, ranked.steps, changes, class_count};
  const ChangesByClass by_class = {gaps, steps, block.counts.data(), block.rank_ends.data()};
  kernels.coding.order_by_class(&in_order, type.width_bytes, &by_class);
  gaps_.cut(block.first_change + changes);
  steps_.cut(steps_begin + std::size_t{changes} * type.width_bytes);
  if (has_signs_) {
    signs_.add(kernels.signs, static_cast<std::uint32_t>(number * k_block_elements), ranked.positions, ranked.steps,
               type.width_bytes);
    classes_.append(ranked.classes, changes);
  }
}

std::span<const ChangeSymbols::Block> ChangeSymbols::strip_of(std::span<const Block> blocks, const Strips& strips) {
  const std::uint64_t strip = strips.of(blocks.front().number);
  const auto behind =
      std::ranges::find_if(blocks, [&](const Block& block) { return strips.of(block.number) != strip; });
  return {blocks.begin(), behind};
}

bool ChangeSymbols::can_make(const Strips& strips, bool has_none) const {
  for (std::span<const Block> left = blocks_; !left.empty();) {
    const auto strip = strip_of(left, strips);
    std::uint64_t next = strips.blocks_of(strips.of(strip.front().number)).first;
    std::size_t changes = 0;
    for (const Block& block : strip) {
      if (block.number != next++ && !has_none) return false;
      changes += block.change_count;
    }
    if (changes > k_most_batch_changes) return false;
    left = left.subspan(strip.size());
  }
  return true;
}

void ChangeSymbols::make(const CodingKernels& coding, ElementType type, const Strips& strips) {
  for (std::span<const Block> left = blocks_; !left.empty();) {
    const auto blocks = strip_of(left, strips);
    StripSymbols& strip = strips_.emplace_back(StripSymbols{strips.of(blocks.front().number)});
    gather(blocks, type.width_bytes, strip.counts);
    for (const Block& block : blocks) strip.change_count += block.change_count;
    append_symbols(coding, type, strip);
    left = left.subspan(blocks.size());
  }
}

// Class by class: the first gap of a block goes on from where the last change before it was.
void ChangeSymbols::gather(std::span<const Block> strip, std::uint8_t width_bytes, ClassCounts& counts) {
  std::array<std::size_t, k_most_blocks_in_strip> next{};
  std::ranges::transform(strip, next.begin(), &Block::first_change);
  std::uint32_t* gaps = strip_gaps_.get();
  std::uint8_t* steps = strip_steps_.get();
  for (std::uint32_t k = 0; k < class_count_; ++k) {
    std::uint32_t since_last = 0;  // members of the class since its last change
    for (std::size_t i = 0; i < strip.size(); ++i) {
      const Block& block = strip[i];
      const std::uint32_t count = block.counts[k];
      if (count == 0) {
        since_last += block.members[k];
        continue;
      }
      widen(gaps_.data() + next[i], count, gaps);
      *gaps += since_last;
      counts_[k].gap_sum += since_last + block.rank_ends[k] - count;
      since_last = block.members[k] - block.rank_ends[k];
      std::memcpy(steps, steps_.data() + next[i] * width_bytes, std::size_t{count} * width_bytes);
      next[i] += count;
      gaps += count;
      steps += std::size_t{count} * width_bytes;
      counts[k] += count;
    }
    counts_[k].changes += counts[k];
  }
}

void ChangeSymbols::append_symbols(const CodingKernels& coding, ElementType type, StripSymbols& strip) {
  const auto changes = static_cast<std::uint32_t>(strip.change_count);
  strip.first_change = gap_symbols_.size();
  strip.raw_begin = raw_.size();
  std::uint8_t* const gap_symbols = gap_symbols_.extend(changes);
  std::uint8_t* const step_symbols = step_symbols_.extend(changes);
  std::uint8_t* const raw = raw_.extend(changes * std::size_t{k_most_raw_bits} / 8 + 16);
  strip.raw_bits = coding.split_raw_bits(strip_gaps_.get(), strip_steps_.get(), type.width_bytes, changes, gap_symbols,
                                         step_symbols, raw);
  raw_.cut(strip.raw_begin + (strip.raw_bits + 7) / 8);

  std::uint32_t i = 0;
  for (std::uint32_t k = 0; k < k_most_classes; ++k) {
    coding.count_symbols(gap_symbols + i, strip.counts[k], k_gap_buckets, counts_[k].gaps.data());
    coding.count_symbols(step_symbols + i, strip.counts[k], k_step_symbols, counts_[k].steps.data());
    i += strip.counts[k];
  }
}

void ChangeSymbols::take_signs(const KernelTable& kernels, std::span<const std::uint8_t> signs) {
  for (const StripSymbols& strip : strips_) {
    std::uint8_t* const ordered = ordered_signs_.get();
    kernels.coding.order_bytes_by_class(classes_.data() + strip.first_change,
                                        static_cast<std::uint32_t>(strip.change_count), class_count_,
                                        signs.data() + strip.first_change, ordered);
    std::size_t i = 0;
    for (std::uint32_t k = 0; k < class_count_; ++k) {
      counts_[k].negatives +=
          kernels.signs.set_signs(step_symbols_.data() + strip.first_change + i, ordered + i, strip.counts[k]);
      i += strip.counts[k];
    }
  }
}

}  // namespace wdelta
