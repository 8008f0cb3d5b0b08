// SPDX-License-Identifier: Apache-2.0
#include "engine/change_symbols.hpp"

#include "engine/block.hpp"

#include <algorithm>
#include <cstring>

namespace wdelta {
namespace {

// Of eight step symbols.
constexpr std::uint64_t k_signs = 0x0101010101010101;

std::uint32_t count_odd(std::span<const std::uint8_t> bytes) {
  std::uint32_t odd = 0;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    odd += static_cast<std::uint32_t>(((word & k_signs) * k_signs) >> 56);
  }
  for (const std::uint8_t byte : bytes) odd += byte & 1U;
  return odd;
}

// Each step symbol gets the sign in its place.
void set_signs(std::span<std::uint8_t> symbols, const std::uint8_t* signs) {
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= symbols.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::uint64_t signs_of_word;
    std::memcpy(&word, symbols.data() + i, sizeof(word));
    std::memcpy(&signs_of_word, signs + i, sizeof(signs_of_word));
    word = (word & ~k_signs) | signs_of_word;
    std::memcpy(symbols.data() + i, &word, sizeof(word));
  }
  for (; i < symbols.size(); ++i) symbols[i] = static_cast<std::uint8_t>((symbols[i] & ~1U) | signs[i]);
}

}  // namespace

ChangeSymbols::ChangeSymbols()
    : ranks_(std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements)),
      change_classes_(std::make_unique_for_overwrite<std::uint8_t[]>(k_block_elements)),
      strip_gaps_(std::make_unique_for_overwrite<std::uint32_t[]>(k_most_batch_changes)),
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
                        const FoundChanges& found) {
  const auto element_count = static_cast<std::uint32_t>(found.base.size() / type.width_bytes);
  const auto changes = static_cast<std::uint32_t>(found.positions.size());
  const auto bound_count = static_cast<std::uint32_t>(bounds.size());
  std::array<std::uint32_t, k_most_classes> members;
  engine.block(type).rank_changes(found.base.data(), element_count, bounds.data(), bound_count, found.positions.data(),
                                  changes, ranks_.get(), change_classes_.get(), members.data());
  add(*engine.kernels, type, bound_count + 1, block,
      {found.positions, found.steps, ranks_.get(), change_classes_.get(), members.data()});
}

void ChangeSymbols::add(const KernelTable& kernels, ElementType type, std::uint32_t class_count, std::uint64_t number,
                        const RankedChanges& ranked) {
  const auto changes = static_cast<std::uint32_t>(ranked.positions.size());
  class_count_ = class_count;
  Block& block = blocks_.emplace_back(Block{number});
  block.first_change = gaps_.size();
  block.change_count = changes;
  std::copy_n(ranked.members, k_most_classes, block.members.begin());
  // With room for what is written behind them.
  std::uint16_t* const gaps = gaps_.extend(changes + 32);
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

bool ChangeSymbols::can_make(const Strips& strips) const {
  for (std::span<const Block> left = blocks_; !left.empty();) {
    const auto strip = strip_of(left, strips);
    std::uint64_t next = strips.blocks_of(strips.of(strip.front().number)).first;
    std::size_t changes = 0;
    for (const Block& block : strip) {
      if (block.number != next++) return false;
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
      std::copy_n(gaps_.data() + next[i], count, gaps);
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

void ChangeSymbols::flip_signs(const CodingKernels& coding, const SignMask& mask) {
  // By SignedColumn, as the column's bit leaves it.
  const std::size_t columns = signs_.place().row_elements;
  std::vector<std::uint8_t> sign_of(2 * columns);
  for (std::size_t i = 0; i < columns; ++i) {
    sign_of[2 * i] = mask_bit(mask.columns, i);
    sign_of[2 * i + 1] = sign_of[2 * i] ^ 1U;
  }
  // First what the rows say.
  flipped_.clear();
  std::uint8_t* const flipped = flipped_.extend(signs_.size() + k_spread_room);
  const SignRows::Rows rows = signs_.rows_in(signs_.all());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SignRows::Row row = rows[i];
    spread(mask_bit(mask.rows, row.index), flipped + row.begin, row.size());
  }
  const std::span<const SignRows::SignedColumn> changes = signs_.changes();
  for (std::size_t i = 0; i < changes.size(); ++i) flipped[i] ^= sign_of[changes[i]];

  for (const StripSymbols& strip : strips_) {
    std::uint8_t* const ordered = ordered_signs_.get();
    coding.order_bytes_by_class(classes_.data() + strip.first_change, static_cast<std::uint32_t>(strip.change_count),
                                class_count_, flipped + strip.first_change, ordered);
    std::uint8_t* symbols = step_symbols_.data() + strip.first_change;
    set_signs(std::span(symbols, strip.change_count), ordered);
    for (std::uint32_t k = 0; k < k_most_classes; symbols += strip.counts[k], ++k) {
      counts_[k].negatives += count_odd({symbols, strip.counts[k]});
    }
  }
}

}  // namespace wdelta
