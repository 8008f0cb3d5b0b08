// SPDX-License-Identifier: Apache-2.0
#include "engine/known_groups.hpp"

#include "engine/symbol_table.hpp"

#include <algorithm>
#include <cstddef>

namespace wdelta {

void KnownGroups::begin_run() {
  is_in_run_ = true;
  count_ = 0;
  groups_.clear();
}

bool KnownGroups::has(ElementType type) const {
  return std::ranges::find(groups_, type, &Group::type) != groups_.end();
}

void KnownGroups::add(ElementType type, const GroupParameters& parameters) {
  if (!is_in_run_) return;
  if (std::ranges::count(groups_, type, &Group::type) == std::ptrdiff_t{k_most})
    groups_.erase(std::ranges::find(groups_, type, &Group::type));
  groups_.push_back({type, count_++, parameters.as_reference()});
}

std::uint64_t cost_of(const GroupParameters& parameters, const GroupReference* reference,
                      std::span<const ClassSymbolCounts> counts) {
  std::vector<std::uint8_t> bytes;
  parameters.write(bytes, reference);
  std::uint64_t cost = std::uint64_t{8 * bytes.size()} << 16;
  for (std::size_t k = 0; k < parameters.classes.size(); ++k) {
    const ClassSymbolCounts& of_class = counts[k];
    if (of_class.changes == 0) continue;
    const auto gaps = std::span(of_class.gaps).first(used_buckets(of_class.gaps));
    cost += cost_of(gaps, parameters.classes[k].gap_frequencies());
    cost += cost_of(of_class.steps, parameters.classes[k].step_frequencies());
  }
  return cost;
}

GroupParameters referring(const GroupParameters& parameters, const GroupReference& reference,
                          std::span<const ClassSymbolCounts> counts, const ClassLimits& limits) {
  GroupParameters other = parameters;
  other.terms =
      fitted_terms(counts.first(parameters.classes.size()), reference, limits.is_masked ? Signs::masked : Signs::plain);
  other.classes = classes_after(reference, *other.terms, limits);
  return other;
}

}  // namespace wdelta
