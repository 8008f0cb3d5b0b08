// SPDX-License-Identifier: Apache-2.0
// What a group takes from one before it, and how it differs: wdelta-delta.5, "References".
#pragma once

#include "engine/class_coding.hpp"
#include "engine/class_fit.hpp"
#include "engine/class_map.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// What a group that has no reference itself says to those that refer to it.
struct GroupReference {
  ClassBounds bounds;
  std::vector<ClassCoding> classes;                     ///< bounds.size() + 1, one at least used
  std::array<std::uint64_t, k_most_classes> changes{};  ///< of each class, in all strips
};

/// How the classes of a group differ from those of its reference.
struct ReferenceTerms {
  std::int32_t rarer = 0;                    ///< in 1/16 of an octave, -255 to 255
  std::int32_t more_gap_buckets = 0;         ///< than expected_gap_buckets(), -64 to 64
  std::uint32_t more_magnitude_buckets = 0;  ///< than the reference has, up to 62
  std::uint8_t sign = 128;                   ///< of all classes; 128 where there is no mask

  void write(BitWriter& bits, bool is_masked) const;
  /// Throws Error(corrupt) with an empty object.
  static ReferenceTerms read(BitReader& bits, bool is_masked);

 private:
  template <class Exchange>
  void exchange(Exchange exchange, bool is_masked);
};

/// The classes that follow.
std::vector<ClassCoding> classes_after(const GroupReference& reference, const ReferenceTerms& terms,
                                       const ClassLimits& limits);

/// What it takes beyond the least there is, in 1/65536 of a bit, to code which elements change as the reference says.
std::uint64_t mismatch(std::span<const ClassTotals> totals, const GroupReference& reference);

/// The terms that suit changes of such classes, of which there are some. `signs`: see fitted().
ReferenceTerms fitted_terms(std::span<const ClassSymbolCounts> counts, const GroupReference& reference, Signs signs);

}  // namespace wdelta
