// SPDX-License-Identifier: Apache-2.0
#include "delta/kept_tables.hpp"

#include "base/error.hpp"
#include "delta/tensor_blocks.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace wdelta {

const GroupTables* KeptTables::of(const TensorPlan::Step& step, const Tensor& tensor, std::size_t group_index) {
  const EntryGroup& group = step.entry->groups()[group_index];
  if (group.parameters_bytes == 0) return nullptr;
  if (entry_ != step.entry) kept_.clear();
  entry_ = step.entry;
  const auto kept = std::ranges::find(kept_, group_index, &Kept::group_index);
  if (kept != kept_.end()) return kept->tables.get();
  std::vector<std::uint8_t> parameters(group.parameters_bytes);
  step.delta->read_at(group.parameters_begin, parameters);
  const std::uint64_t first = group.first_block * k_block_elements;
  const std::uint64_t element_count = std::min(group.block_count * k_block_elements, tensor.element_count() - first);
  auto tables = std::make_unique<const GroupTables>(
      parameters, GroupShape{element_type(tensor), group.block_count, element_count, matrix_place(tensor, first)});
  for (std::uint64_t block = 0; block < group.block_count; ++block) {
    const DeltaEntry::Block& place = step.entry->block(group.first_block + block);
    if (place.begin == place.end && is_classed(tables->parameters().blocks[block])) {
      throw Error(Fault::corrupt, "", fmt::format("its group takes block {} for a classed one", block));
    }
  }
  return kept_.emplace_back(Kept{group_index, std::move(tables)}).tables.get();
}

void KeptTables::drop_before(std::size_t group_index) {
  std::erase_if(kept_, [&](const Kept& kept) { return kept.group_index < group_index; });
}

}  // namespace wdelta
