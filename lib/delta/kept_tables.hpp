// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/tensor_plan.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace wdelta {

/// The tables of a few groups of a step: the blocks of a group come one after the other, and so do groups.
class KeptTables {
 public:
  /// Null where the group has none. They stay until drop_before(), or until another entry is asked for.
  const GroupTables* of(const TensorPlan::Step& step, const Tensor& tensor, std::size_t group_index);
  /// Nobody asks for the groups before any more.
  void drop_before(std::size_t group_index);

 private:
  struct Kept {
    std::size_t group_index;
    std::unique_ptr<const GroupTables> tables;
  };
  const DeltaEntry* entry_ = nullptr;
  std::vector<Kept> kept_;
};

}  // namespace wdelta
