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
      order_(std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements + 64)),
      gaps_(std::make_unique_for_overwrite<std::uint16_t[]>(k_block_elements)),
      steps_(std::make_unique_for_overwrite<std::uint32_t[]>(k_block_elements)) {}

void ChangeSymbols::begin(const MatrixPlace& place) {
  has_signs_ = place.has_rows();
  if (has_signs_) signs_.begin(place);
  blocks_.clear();
  gap_symbols_.clear();
  step_symbols_.clear();
  places_.clear();
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
  coding.order_by_class(ranked.classes, changes, class_count, block.counts.data(), order_.get());
  order_by_class(type, block, ranked);
  if (has_signs_) signs_.add(first_element, ranked.positions, ranked.steps, type.width_bytes);
  append_symbols(coding, changes, block);
  return block;
}

// Steps as order_ has them, gaps, and the way back.
void ChangeSymbols::order_by_class(ElementType type, const BlockSymbols& block, const RankedChanges& ranked) {
  const std::uint16_t* const ranks = ranked.ranks;
  std::uint16_t* const places = places_.extend(ranked.positions.size());
  const auto order = [&]<class T>(const T* typed) {
    std::uint32_t i = 0;
    for (std::uint32_t k = 0; k < k_most_classes; ++k) {
      std::uint32_t next_rank = 0;
      for (const std::uint32_t end = i + block.counts[k]; i < end; ++i) {
        const std::uint32_t change = order_[i];
        gaps_[i] = static_cast<std::uint16_t>(ranks[change] - next_rank);
        next_rank = ranks[change] + 1U;
        steps_[i] = typed[change];
        places[change] = static_cast<std::uint16_t>(i);
      }
      counts_[k].changes += block.counts[k];
      counts_[k].gap_sum += next_rank - block.counts[k];
    }
  };
  if (type.width_bytes == 1) order(static_cast<const std::uint8_t*>(ranked.steps));
  if (type.width_bytes == 2) order(static_cast<const std::uint16_t*>(ranked.steps));
  if (type.width_bytes == 4) order(static_cast<const std::uint32_t*>(ranked.steps));
}

void ChangeSymbols::append_symbols(const CodingKernels& coding, std::uint32_t changes, BlockSymbols& block) {
  block.first_change = gap_symbols_.size();
  block.change_count = changes;
  block.raw_begin = raw_.size();
  std::uint8_t* const gap_symbols = gap_symbols_.extend(changes);
  std::uint8_t* const step_symbols = step_symbols_.extend(changes);
  std::uint8_t* const raw = raw_.extend(changes * std::size_t{44} / 8 + 16);
  const std::uint64_t raw_bits =
      coding.split_raw_bits(gaps_.get(), steps_.get(), changes, gap_symbols, step_symbols, raw);
  block.raw_end = block.raw_begin + (raw_bits + 7) / 8;
  raw_.cut(block.raw_end);

  std::uint32_t i = 0;
  for (std::uint32_t k = 0; k < k_most_classes; ++k) {
    coding.count_symbols(gap_symbols + i, block.counts[k], k_gap_buckets, counts_[k].gaps.data());
    coding.count_symbols(step_symbols + i, block.counts[k], k_step_symbols, counts_[k].steps.data());
    i += block.counts[k];
  }
}

void ChangeSymbols::flip_signs(const SignMask& mask) {
  const std::uint64_t columns = signs_.place().row_elements;
  std::vector<std::uint8_t> flips(2 * columns);  // whichever sign a change has
  for (std::uint64_t i = 0; i < 2 * columns; ++i) flips[i] = mask_bit(mask.columns, i / 2);
  flips_of_rows_.clear();
  std::uint8_t* const flips_of_rows = flips_of_rows_.extend(signs_.changes().size() + k_spread_room);
  signs_.each_row(signs_.all(), [&](const SignRows::Row& row, SignRows::Part part) {
    spread(mask_bit(mask.rows, row.index), part, flips_of_rows);
  });
  const std::uint8_t* const flips_of_columns = flips.data();
  for (const BlockSymbols& block : blocks_) {
    const SignRows::SignedColumn* const columns_of = signs_.changes().data() + block.first_change;
    const std::uint8_t* const flips_of = flips_of_rows + block.first_change;
    const std::uint16_t* const places = places_.data() + block.first_change;
    std::uint8_t* const symbols = step_symbols_.data() + block.first_change;
    for (std::size_t i = 0; i < block.change_count; ++i) {
      std::uint8_t& symbol = symbols[places[i]];
      symbol = static_cast<std::uint8_t>(symbol ^ flips_of_columns[columns_of[i]] ^ flips_of[i]);
    }
    const std::uint8_t* of_class = symbols;
    for (std::uint32_t k = 0; k < k_most_classes; of_class += block.counts[k], ++k) {
      counts_[k].negatives += count_odd({of_class, block.counts[k]});
    }
  }
}

}  // namespace wdelta
