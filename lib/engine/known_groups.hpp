// SPDX-License-Identifier: Apache-2.0
// Which groups an encoder can refer to, and whether that pays: wdelta-delta.5, "References".
#pragma once

#include "engine/class_fit.hpp"
#include "engine/group_tables.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// The groups of a run that others may refer to: a few of each type, the newest.
class KnownGroups {
 public:
  /// Tensors of a layer differ more than those with the same name in the next one: so many kinds there may be.
  static constexpr std::size_t k_most = 4;
  struct Group {
    ElementType type;
    std::size_t number;  ///< among those that refer to none
    GroupReference reference;
  };

  /// Forgets all. Before the first run none is known.
  void begin_run();
  /// Of all types, oldest first; valid until the next call of begin_run() or add().
  std::span<const Group> groups() const { return groups_; }
  bool has(ElementType type) const;
  /// As an index counts them: CodedGroup::reference.
  std::size_t distance_to(const Group& group) const { return count_ - group.number; }
  /// Has parameters that refer to none refer to the group that makes them, and what is coded with them, smallest:
  /// returned, or null where none does. `counts`: by class, what is coded.
  const Group* refer(ElementType type, std::span<const ClassSymbolCounts> counts, const ClassLimits& limits,
                     GroupParameters& parameters) const;
  /// A group that has parameters, of so many bytes, and refers to none.
  void add(ElementType type, const GroupParameters& parameters, std::size_t parameters_bytes);

 private:
  bool is_in_run_ = false;
  std::size_t count_ = 0;  // that refer to none
  std::vector<Group> groups_;
};

}  // namespace wdelta
