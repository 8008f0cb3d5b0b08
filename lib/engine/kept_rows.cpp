// SPDX-License-Identifier: Apache-2.0
#include "engine/kept_rows.hpp"

#include "engine/fixed_log2.hpp"

#include <algorithm>

namespace wdelta {

void KeptRows::begin(const MatrixPlace& place, std::uint8_t width_bytes) {
  place_ = place;
  width_bytes_ = width_bytes;
  element_count_ = 0;
  parts_.clear();
}

// Calls visit(begin, size, changes) for each part with changes: where it lies in the block, and how many it has.
template <class Visit>
void KeptRows::each_part(std::uint64_t block, const FoundChanges& changes, Visit visit) {
  const std::uint64_t block_begin = block * k_block_elements;
  const auto block_size = static_cast<std::uint32_t>(changes.base.size() / width_bytes_);
  const RowParts parts(place_, block_begin + block_size);
  const auto row = static_cast<std::uint32_t>(place_.row_elements);
  // Of the part, in the block. The first one may have less than a row.
  std::uint64_t number = parts.of(block_begin);
  std::uint32_t begin = 0;
  std::uint32_t end = static_cast<std::uint32_t>(parts.at(number).size());
  const auto positions = changes.positions;
  for (std::size_t i = 0; i < positions.size();) {
    if (positions[i] >= end) {
      const std::uint32_t rows = (positions[i] - end) / row;
      number += rows + 1;
      begin = end + rows * row;
      end = std::min(begin + row, block_size);
    }
    const std::size_t first = i;
    while (i < positions.size() && positions[i] < end) ++i;
    parts_.append(&number, 1);
    element_count_ += end - begin;
    visit(begin, end - begin, positions.subspan(first, i - first));
  }
}

void KeptRows::keep(std::uint64_t block, const FoundChanges& changes) {
  each_part(block, changes, [](std::uint32_t, std::uint32_t, std::span<const std::uint16_t>) {});
}

FoundChanges KeptRows::add(std::uint64_t block, const FoundChanges& changes) {
  base_.clear();
  positions_.clear();
  each_part(block, changes, [&](std::uint32_t begin, std::uint32_t size, std::span<const std::uint16_t> positions) {
    const std::size_t kept = base_.size() / width_bytes_;
    base_.append(changes.base.data() + std::size_t{begin} * width_bytes_, std::size_t{size} * width_bytes_);
    std::uint16_t* moved = positions_.extend(positions.size());
    for (const std::uint16_t position : positions) *moved++ = static_cast<std::uint16_t>(kept + (position - begin));
  });
  return {base_.span(), positions_.span(), changes.steps};
}

SkippedRows KeptRows::skipped(std::uint64_t group_elements) const {
  SkippedRows skipped;
  std::uint64_t next = 0;
  const auto skip_to = [&](std::uint64_t part) { skipped.numbers.push_back(static_cast<std::uint32_t>(part - next)); };
  for (const std::uint64_t part : parts_.span()) {
    skip_to(part);
    next = part + 1;
  }
  const std::uint64_t count = RowParts(place_, group_elements).count();
  if (next != count) skip_to(count);
  return skipped;
}

bool KeptRows::pays(std::uint64_t group_elements, std::uint64_t changes) const {
  const std::uint64_t saved_bits = changes * (log2_fixed(group_elements) - log2_fixed(element_count_)) >> 16;
  const auto is_worth = [&](std::uint64_t told) { return 2 * saved_bits >= 3 * told; };
  // Mostly all are kept. Each of them takes a bit at least.
  return element_count_ < group_elements && is_worth(parts_.size()) && is_worth(told_bits(skipped(group_elements)));
}

}  // namespace wdelta
