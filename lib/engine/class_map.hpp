// SPDX-License-Identifier: Apache-2.0
// What both sides know of an element before it changes: its context (wdelta-delta.5, "Classed blocks"). Elements are
// put into classes by it, since whether one changes, and how far, depends on it more than on anything else.
#pragma once

#include "engine/bounded_list.hpp"
#include "engine/element.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

inline constexpr std::uint32_t k_most_classes = 16;

/// The eight bits below the sign of a floating element (of 8-bit ones seven, and a 0), the eight highest of an integer.
/// For bf16 and f32 that is the exponent.
template <class T>
constexpr std::uint8_t context_of(T element, ElementKind kind) {
  const auto shifted = static_cast<T>(element << (kind == ElementKind::floating ? 1 : 0));
  return static_cast<std::uint8_t>(shifted >> (8 * sizeof(T) - 8));
}

/// Class k is the contexts from bounds[k-1], or 0, up to but not including bounds[k].
using ClassBounds = std::vector<std::uint8_t>;

inline std::uint8_t class_of(std::uint8_t context, const ClassBounds& bounds) {
  return static_cast<std::uint8_t>(std::ranges::upper_bound(bounds, context) - bounds.begin());
}

/// Elements of a class, and how many of them change.
struct ClassTotals {
  std::uint64_t elements = 0;
  std::uint64_t changes = 0;
};

/// Contexts of elements and of changes, counted over some blocks, and the bounds that fit them.
class ClassChooser {
 public:
  void clear();
  /// Counts a part of the elements of a block (at most 4 bytes wide) and all its changes. Steps as
  /// BlockKernels::find_changes() writes them.
  void count(std::span<const std::uint8_t> base, ElementType type, std::span<const std::uint16_t> positions,
             const void* steps);
  std::uint64_t change_count() const { return change_count_; }
  /// Whether distances have one and a half raw bits or more in the mean: so large that which of them come may be worth
  /// more than how large they are.
  bool has_far_steps() const;

  struct Choice {
    ClassBounds bounds;
    std::uint64_t cost;  ///< of what was counted, in 1/65536 of a bit
  };
  /// As few bounds as make the changes about as cheap to code as any with at most `most_classes` do. `coded_elements`:
  /// how many elements will be coded with them, which pay for the tables of each class together.
  Choice choose(std::uint32_t most_classes, std::uint64_t coded_elements) const;
  /// What was counted would cost with a class for each context, and nothing told of classes.
  std::uint64_t least_cost() const;
  struct Priced {
    std::uint64_t cost;
    BoundedList<ClassTotals, k_most_classes> totals;  ///< what was counted of each class
  };
  /// What such bounds cost where all that is told of classes is numbers of changes.
  Priced price_of_known(const ClassBounds& bounds, std::uint64_t coded_elements) const;

 private:
  // Distances of 1 to 4 each, then one for each power of two: of contexts next to each other those of the one are often
  // twice those of the other.
  static constexpr std::size_t k_distances = 33;
  struct ContextCounts {
    std::uint64_t elements = 0;
    std::array<std::uint64_t, k_distances> changes{};
  };
  struct Run {
    std::uint8_t first;
    ContextCounts counts;
  };
  void join(ContextCounts& counts, const ContextCounts& others) const;
  std::uint64_t cost_as_one_class(const ContextCounts& counts) const;
  /// What takes so many bits for a group of so many elements, as a part of what was counted.
  std::uint64_t shared_cost(std::uint64_t bits, std::uint64_t coded_elements) const;
  std::uint64_t strip_bits(std::uint64_t coded_elements) const;
  std::vector<Run> runs() const;

  std::array<ContextCounts, 256> contexts_{};
  std::array<bool, 256> is_counted_{};  // which of them are not all 0
  std::uint64_t element_count_ = 0;
  std::uint64_t change_count_ = 0;
  std::size_t distance_count_ = 0;  // distances from there on do not occur
};

}  // namespace wdelta
