// SPDX-License-Identifier: Apache-2.0
// Which groups an encoder can refer to, and whether that pays: wdelta-delta.5, "References".
#pragma once

#include "engine/class_fit.hpp"
#include "engine/group_tables.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// The groups of a run that others may refer to: the newest of each type.
class KnownGroups {
 public:
  struct Group {
    ElementType type;
    std::size_t number;  ///< among those that refer to none
    GroupReference reference;
  };

  /// Forgets all. Before the first run none is known.
  void begin_run();
  /// Null where there is none.
  const Group* of(ElementType type) const;
  /// As an index counts them: CodedGroup::reference.
  std::size_t distance_to(const Group& group) const { return count_ - group.number; }
  /// A group that has parameters and refers to none.
  void add(ElementType type, const GroupParameters& parameters);

 private:
  bool is_in_run_ = false;
  std::size_t count_ = 0;  // that refer to none
  std::vector<Group> groups_;
};

/// Parameters that say the same by referring to a group with the same bounds; nothing where they take more so.
/// `parameters` refer to none; `counts`: by class, what is coded with them.
std::optional<GroupParameters> referring(const GroupParameters& parameters, const GroupReference& reference,
                                         std::span<const ClassSymbolCounts> counts, const ClassLimits& limits);

}  // namespace wdelta
