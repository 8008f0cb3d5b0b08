// SPDX-License-Identifier: Apache-2.0
#include "engine/change_symbols.hpp"

#include "engine/block.hpp"

#include <cstring>

namespace wdelta {
namespace {

std::uint32_t count_odd(std::span<const std::uint8_t> bytes) {
  std::uint32_t odd = 0;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    constexpr std::uint64_t k_ones = 0x0101010101010101;
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof(word));
    odd += static_cast<std::uint32_t>(((word & k_ones) * k_ones) >> 56);
  }
  for (const std::uint8_t byte : bytes) odd += byte & 1U;
  return odd;
}

}  // namespace

ChangeSymbols::ChangeSymbols()
    : ranks_(std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements)),
      change_classes_(std::make_unique_for_overwrite<std::uint8_t[]>(k_block_elements)),
      gaps_(std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements + 32)),
      ordered_steps_(std::make_unique_for_overwrite<std::byte[]>((k_block_elements + 16) * sizeof(std::uint32_t))),
      ordered_flips_(std::make_unique_for_overwrite<std::uint8_t[]>(k_block_elements + 64)) {}

void ChangeSymbols::begin(const MatrixPlace& place) {
  has_signs_ = place.has_rows();
  if (has_signs_) signs_.begin(place);
  blocks_.clear();
  gap_symbols_.clear();
  step_symbols_.clear();
  classes_.clear();
  raw_.clear();
  counts_.fill({});
}

BlockSymbols ChangeSymbols::add(const Engine& engine, ElementType type, const ClassBounds& bounds,
                                std::uint32_t first_element, const FoundChanges& found) {
  const auto element_count = static_cast<std::uint32_t>(found.base.size() / type.width_bytes);
  const auto changes = static_cast<std::uint32_t>(found.positions.size());
  const auto bound_count = static_cast<std::uint32_t>(bounds.size());
  engine.block(type).rank_changes(found.base.data(), element_count, bounds.data(), bound_count, found.positions.data(),
                                  changes, ranks_.get(), change_classes_.get());
  return add(engine.kernels->coding, type, bound_count + 1, first_element,
             {found.positions, found.steps, ranks_.get(), change_classes_.get()});
}

BlockSymbols ChangeSymbols::add(const CodingKernels& coding, ElementType type, std::uint32_t class_count,
                                std::uint32_t first_element, const RankedChanges& ranked) {
  const auto changes = static_cast<std::uint32_t>(ranked.positions.size());
  BlockSymbols& block = blocks_.emplace_back();
  class_count_ = class_count;
  const ChangesInOrder in_order = {ranked.classes, ranked.ranks, ranked.steps, changes, class_count};
  std::array<std::uint32_t, k_most_classes> rank_ends{};
  const ChangesByClass by_class = {gaps_.get(), ordered_steps_.get(), block.counts.data(), rank_ends.data()};
  coding.order_by_class(&in_order, type.width_bytes, &by_class);
  for (std::uint32_t k = 0; k < class_count; ++k) {
    counts_[k].changes += block.counts[k];
    counts_[k].gap_sum += rank_ends[k] - block.counts[k];
  }
  if (has_signs_) {
    signs_.add(first_element, ranked.positions, ranked.steps, type.width_bytes);
    classes_.append(ranked.classes, changes);
  }
  block.change_count = changes;
  append_symbols(coding, type, block);
  return block;
}

void ChangeSymbols::append_symbols(const CodingKernels& coding, ElementType type, BlockSymbols& block) {
  const auto changes = static_cast<std::uint32_t>(block.change_count);
  block.first_change = gap_symbols_.size();
  block.raw_begin = raw_.size();
  std::uint8_t* const gap_symbols = gap_symbols_.extend(changes);
  std::uint8_t* const step_symbols = step_symbols_.extend(changes);
  std::uint8_t* const raw = raw_.extend(changes * std::size_t{44} / 8 + 16);
  block.raw_bits = coding.split_raw_bits(gaps_.get(), ordered_steps_.get(), type.width_bytes, changes, gap_symbols,
                                         step_symbols, raw);
  raw_.cut(block.raw_begin + (block.raw_bits + 7) / 8);

  std::uint32_t i = 0;
  for (std::uint32_t k = 0; k < k_most_classes; ++k) {
    coding.count_symbols(gap_symbols + i, block.counts[k], k_gap_buckets, counts_[k].gaps.data());
    coding.count_symbols(step_symbols + i, block.counts[k], k_step_symbols, counts_[k].steps.data());
    i += block.counts[k];
  }
}

void ChangeSymbols::flip_signs(const CodingKernels& coding, const SignMask& mask) {
  const std::uint64_t columns = signs_.place().row_elements;
  std::vector<std::uint8_t> flips_of_columns(2 * columns);  // whichever sign a change has
  for (std::uint64_t i = 0; i < 2 * columns; ++i) flips_of_columns[i] = mask_bit(mask.columns, i / 2);
  flips_.clear();
  std::uint8_t* const flips = flips_.extend(signs_.changes().size() + k_spread_room);
  signs_.each_row(signs_.all(), [&](const SignRows::Row& row, SignRows::Part part) {
    spread(mask_bit(mask.rows, row.index), part, flips);
  });
  const std::span<const SignRows::SignedColumn> changes = signs_.changes();
  for (std::size_t i = 0; i < changes.size(); ++i) flips[i] ^= flips_of_columns[changes[i]];

  for (const BlockSymbols& block : blocks_) {
    std::uint8_t* const ordered = ordered_flips_.get();
    coding.order_bytes_by_class(classes_.data() + block.first_change, static_cast<std::uint32_t>(block.change_count),
                                class_count_, flips + block.first_change, ordered);
    std::uint8_t* symbols = step_symbols_.data() + block.first_change;
    for (std::size_t i = 0; i < block.change_count; ++i) symbols[i] ^= ordered[i];
    for (std::uint32_t k = 0; k < k_most_classes; symbols += block.counts[k], ++k) {
      counts_[k].negatives += count_odd({symbols, block.counts[k]});
    }
  }
}

}  // namespace wdelta
