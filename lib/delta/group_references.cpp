// SPDX-License-Identifier: Apache-2.0
#include "delta/group_references.hpp"

#include "engine/group_tables.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace wdelta {

const GroupReference* GroupReferences::of(const std::shared_ptr<const DeltaReader>& delta, const EntryGroup& group,
                                          ElementType type) {
  if (!group.reference) return nullptr;
  if (delta_ != delta) {
    kept_.clear();
    oldest_ = 0;
    delta_ = delta;
  }
  const std::size_t number = *group.reference;
  for (const Kept& each : kept_) {
    if (each.number == number && each.type == type) return &each.reference;
  }
  const EntryGroup& told = delta->reference(number);
  std::vector<std::uint8_t> parameters(std::min(told.parameters_bytes, k_most_reference_bytes));
  delta->read_at(told.parameters_begin, parameters);
  const GroupShape shape = {type,
                            told.block_count(),
                            told.block_count() * k_block_elements,
                            {0, told.first_block() * k_block_elements},
                            told.strips.blocks_in_strip};
  Kept read{number, type, read_group_reference(parameters, shape)};
  if (kept_.size() < k_most_kept) return &kept_.emplace_back(std::move(read)).reference;
  Kept& place = kept_[std::exchange(oldest_, (oldest_ + 1) % k_most_kept)];
  place = std::move(read);
  return &place.reference;
}

}  // namespace wdelta
