// SPDX-License-Identifier: Apache-2.0
// Which elements of a stretch are in which range of classes, kept while a chain of deltas goes over it, with AVX2; for
// the kernel file alone.
#pragma once

#include "engine/class_columns_avx2.hpp"
#include "engine/kernels.hpp"
#include "engine/moved_elements.hpp"

#include <immintrin.h>

namespace wdelta {
namespace {

/// What is in which range of classes, of one stretch at a time, while deltas go over it; its memory is lent.
class ClassMap {
 public:
  ClassMap(const ClassRanges& wanted, void* scratch)
      : table_(wanted.bounds, wanted.bound_count), wanted_(&wanted), places_(static_cast<Places*>(scratch)) {
    for (std::uint32_t range = 0; range < wanted.range_count; ++range) {
      const ClassRange classes = wanted.ranges[range];
      places_->columns[range].contexts = table_.contexts_of_classes(classes.first, classes.end);
      for (std::uint32_t k = classes.first; k < classes.end; ++k) ranges_with_[k] |= 1U << range;
    }
  }

  /// From now on the map is of these elements.
  template <class T, Order order>
  void look_at(const char* elements, std::uint32_t count) {
    count_stretch<T, order>(elements, count, table_, places_->counted);
    ClassColumn of_class[k_classes];
    list_columns(places_->counted, table_.class_count(), of_class);
    for (std::uint32_t range = 0; range < wanted_->range_count; ++range) {
      const ClassRange classes = wanted_->ranges[range];
      ClassColumn& column = places_->columns[range];
      column.copy(of_class[classes.first]);
      for (std::uint32_t k = classes.first + 1U; k < classes.end; ++k) column.add(of_class[k]);
    }
  }

  const std::uint8_t* contexts() const { return places_->counted.contexts; }
  const ClassColumn* columns() const { return places_->columns; }  ///< by range

  /// Takes over what became of elements of the stretch, which begins at `first`. Few come into another class: of those
  /// that move, the ones at the edge of an exponent. Returns false where more do than are worth it; then the stretch is
  /// to be looked at again.
  template <Order order, class T>
  bool follow(const MovedElements<T, k_stretch>& moved, std::uint32_t first) {
    std::uint32_t crossings = 0;
    for (std::uint32_t i = 0; i < moved.count; ++i) {
      const std::uint8_t from = context_of<T, order>(moved.before[i]);
      const std::uint8_t to = context_of<T, order>(moved.after[i]);
      if (from == to) continue;
      if (++crossings > k_most_crossings) return false;
      const std::uint32_t element = moved.position[i] - first;
      places_->counted.contexts[element] = to;
      const std::uint32_t into = ranges_with_[table_.class_of(to)];
      for (std::uint32_t ranges = into ^ ranges_with_[table_.class_of(from)]; ranges != 0; ranges = _blsr_u32(ranges)) {
        const std::uint32_t range = _tzcnt_u32(ranges);
        places_->columns[range].add(element / k_word, (into >> range & 1) != 0 ? 1 : -1);
      }
    }
    return true;
  }

  /// Ranges beyond those asked for are never touched.
  struct Places {
    CountedStretch counted;
    ClassColumn columns[k_most_class_ranges];
  };

 private:
  static constexpr std::uint32_t k_most_crossings = 256;

  ClassTable table_;
  const ClassRanges* wanted_;
  Places* places_;
  std::uint32_t ranges_with_[k_classes] = {};  // by class, a bit for each that it is in
};

}  // namespace
}  // namespace wdelta
