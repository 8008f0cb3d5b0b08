// SPDX-License-Identifier: Apache-2.0
#include "engine/known_groups.hpp"

#include "engine/symbol_table.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace wdelta {
namespace {

/// Bits of parameters and of the symbols that are coded with them, in 1/65536.
std::uint64_t cost_of(const GroupParameters& parameters, const GroupReference* reference,
                      std::span<const ClassSymbolCounts> counts) {
  std::vector<std::uint8_t> bytes;
  parameters.write(bytes, reference);
  std::uint64_t cost = std::uint64_t{8 * bytes.size()} << 16;
  for (std::size_t k = 0; k < parameters.classes.size(); ++k) {
    const ClassSymbolCounts& of_class = counts[k];
    if (of_class.changes == 0) continue;
    const auto gaps = std::span(of_class.gaps).first(used_buckets(of_class.gaps));
    cost += wdelta::cost_of(gaps, parameters.classes[k].gap_frequencies());
    cost += wdelta::cost_of(of_class.steps, parameters.classes[k].step_frequencies());
  }
  return cost;
}

/// Parameters that say the same by referring to a group with the same bounds.
GroupParameters referring(const GroupParameters& parameters, const GroupReference& reference,
                          std::span<const ClassSymbolCounts> counts, const ClassLimits& limits) {
  GroupParameters other = parameters;
  other.terms =
      fitted_terms(counts.first(parameters.classes.size()), reference, limits.is_masked ? Signs::masked : Signs::plain);
  other.classes = classes_after(reference, *other.terms, limits);
  return other;
}

}  // namespace

void KnownGroups::begin_run() {
  is_in_run_ = true;
  count_ = 0;
  groups_.clear();
}

bool KnownGroups::has(ElementType type) const {
  return std::ranges::find(groups_, type, &Group::type) != groups_.end();
}

void KnownGroups::add(ElementType type, const GroupParameters& parameters, std::size_t parameters_bytes) {
  if (!is_in_run_) return;
  const std::size_t number = count_++;
  if (parameters_bytes - parameters.mask.size_bytes() > k_most_reference_bytes) return;
  if (std::ranges::count(groups_, type, &Group::type) == std::ptrdiff_t{k_most})
    groups_.erase(std::ranges::find(groups_, type, &Group::type));
  groups_.push_back({type, number, parameters.as_reference()});
}

const KnownGroups::Group* KnownGroups::refer(ElementType type, std::span<const ClassSymbolCounts> counts,
                                             const ClassLimits& limits, GroupParameters& parameters) const {
  const Group* like = nullptr;
  std::optional<std::uint64_t> least;  // asked for only where some group has such bounds
  for (const Group& group : groups_) {
    if (group.type != type || group.reference.bounds != parameters.bounds) continue;
    if (!least) least = cost_of(parameters, nullptr, counts);
    GroupParameters other = referring(parameters, group.reference, counts, limits);
    const std::uint64_t cost = cost_of(other, &group.reference, counts);
    if (cost > *least) continue;
    least = cost;
    like = &group;
    parameters = std::move(other);
  }
  return like;
}

}  // namespace wdelta
