// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/description.hpp"
#include "delta/ordered_base.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// Where each tensor of a file to compare comes from, and which files of the base that takes.
struct TensorSources {
  struct Place {
    const RebuiltFile* file = nullptr;  ///< null: the tensor starts afresh
    std::uint64_t begin = 0;
  };
  OrderedBase base;                                         ///< what the rest points into
  std::vector<Place> places;                                ///< as the tensors of next
  std::vector<const BaseFile*> files;                       ///< those used, the first one being base.front()
  std::map<std::string, std::optional<Source>> exceptions;  ///< as DeltaDescription::sources
};

/// A tensor is looked for by name, in base.front() first, then in the other files. One whose name is nowhere is looked
/// for by its content: among the tensors of the same dtype and number of elements, for one that agrees in most of a
/// sample of elements. Those whose names end most alike are looked at, those with the same numbers in their names or
/// one that is a little larger or smaller, and the first of those that are still without a counterpart. So is one whose
/// name stands for something else, where the tensors of the file have changed and a few of them show that: layers were
/// dropped or inserted. A wrong guess costs bytes, never bits.
TensorSources find_sources(const OrderedBase& base, const SafetensorsHeader& next, const ByteReader& bytes,
                           const Execution& execution);

}  // namespace wdelta
