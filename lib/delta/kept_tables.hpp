// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/tensor_plan.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <optional>

namespace wdelta {

/// The tables of the group of a step that was asked for last: the blocks of a group come one after the other.
class KeptTables {
 public:
  /// Null where the group has none. They stay until another group is asked for.
  const GroupTables* of(const TensorPlan::Step& step, const Tensor& tensor, std::size_t group_index);

 private:
  const DeltaEntry* entry_ = nullptr;
  std::size_t group_index_ = 0;
  std::optional<GroupTables> tables_;
};

}  // namespace wdelta
