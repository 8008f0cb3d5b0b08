// SPDX-License-Identifier: Apache-2.0
#include "delta/group_references.hpp"

#include "engine/group_tables.hpp"

#include <cstdint>
#include <vector>

namespace wdelta {

const GroupReference* GroupReferences::of(const std::shared_ptr<const DeltaReader>& delta, const EntryGroup& group,
                                          ElementType type) {
  if (!group.reference) return nullptr;
  if (delta_ == delta && number_ == *group.reference && type_ == type) return &reference_;
  const EntryGroup& told = delta->reference(*group.reference);
  std::vector<std::uint8_t> parameters(told.parameters_bytes);
  delta->read_at(told.parameters_begin, parameters);
  delta_.reset();
  reference_ = read_group_reference(parameters, {type,
                                                 told.block_count,
                                                 told.block_count * k_block_elements,
                                                 {0, told.first_block * k_block_elements},
                                                 told.strips.blocks_in_strip});
  delta_ = delta;
  number_ = *group.reference;
  type_ = type;
  return &reference_;
}

}  // namespace wdelta
