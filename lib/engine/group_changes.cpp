// SPDX-License-Identifier: Apache-2.0
#include "engine/group_changes.hpp"

#include "engine/engine.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {
namespace {

// Each takes time in chains of deltas, but next to none where little changes.
constexpr std::uint32_t most_classes(std::uint64_t changes, std::uint64_t elements) {
  return changes * 256 < elements ? k_most_classes : 12;
}
// About so many changes make a batch: what it takes beside them is next to nothing then, and they stay in cache.
constexpr std::size_t k_batch_changes = 4096;
// Classes are chosen once this many changes have been seen, or where they are few so many blocks with changes. These
// are held back.
constexpr std::uint64_t k_telling_changes = 768;
constexpr std::size_t k_most_held_blocks = 32;
// Already from this many on they are taken from a group before, where so they cost no more than this part beyond what a
// class for each context would: where tensors are small, choosing is much of what is done for each.
constexpr std::uint64_t k_hinting_changes = 256;
constexpr std::uint64_t k_alike_part = 32;

}  // namespace

void GroupChanges::begin(ElementType type, const MatrixPlace& place, ExpectedElements expected) {
  type_ = type;
  place_ = place;
  expected_ = expected;
  block_count_ = 0;
  element_count_ = 0;
  change_count_ = 0;
  has_far_steps_ = false;
  chooser_.clear();
  bounds_.reset();
  held_.clear();
  skips_rows_ = false;
  symbols_.begin(type.kind == ElementKind::floating ? place : MatrixPlace());
}

void GroupChanges::begin_block(std::uint32_t element_count) {
  ++block_count_;
  element_count_ += element_count;
}

void GroupChanges::look_at(const Engine& engine, const FoundChanges& changes) {
  chooser_.count(changes.base, type_, changes.positions, changes.steps);
  const bool is_last_look = chooser_.change_count() >= k_telling_changes || held_.count() + 1 >= k_most_held_blocks;
  if (!is_last_look && chooser_.change_count() < k_hinting_changes) return;
  auto known = cheapest_known();
  const std::uint64_t least = chooser_.least_cost();
  if (known && known->cost <= least + least / k_alike_part) {
    take_classes(engine, std::move(known->bounds), &changes);
  } else if (is_last_look) {
    choose_classes(engine, &changes);
  }
}

void GroupChanges::add(const Engine& engine, std::size_t block, const FoundChanges& changes) {
  if (!bounds_) {
    held_.add(block, changes, type_.width_bytes);
  } else if (skips_rows_) {
    symbols_.add(engine, type_, *bounds_, block, kept_rows_.add(block, changes), changes.positions);
  } else {
    symbols_.add(engine, type_, *bounds_, block, changes, changes.positions);
  }
}

void GroupChanges::add(const Engine& engine, std::size_t block, const RankedChanges& ranked) {
  const auto class_count = static_cast<std::uint32_t>(bounds_->size()) + 1;
  symbols_.add(*engine.kernels, type_, class_count, block, ranked);
}

// Of the whole group, if the rest of it changes as much.
std::uint64_t GroupChanges::expected_elements() const {
  const std::uint64_t wanted = k_enough_changes * element_count_ / change_count_;
  return std::max(element_count_, std::clamp(wanted, expected_.least, expected_.most));
}

// Those of the group before it in the run whose classes cost least.
std::optional<ClassChooser::Choice> GroupChanges::cheapest_known() const {
  std::optional<ClassChooser::Choice> cheapest;
  for (const auto& [of_type, number, reference] : known_.groups()) {
    if (of_type != type_) continue;
    const ClassChooser::Priced priced = chooser_.price_of_known(reference.bounds, expected_elements());
    const std::uint64_t cost = priced.cost + mismatch(priced.totals, reference);
    if (!cheapest || cost <= cheapest->cost) cheapest = {reference.bounds, cost};
  }
  return cheapest;
}

void GroupChanges::choose_classes(const Engine& engine, const FoundChanges* newest) {
  if (bounds_) return;
  const std::uint64_t elements = expected_elements();
  // Of the first in a run: others may refer to it, and pay for its classes too.
  const std::uint64_t paying = known_.has(type_) ? elements : std::max(elements, expected_.of_run);
  ClassChooser::Choice choice = chooser_.choose(most_classes(change_count_, element_count_), paying);
  auto known = cheapest_known();
  take_classes(engine, known && known->cost <= choice.cost ? std::move(known->bounds) : std::move(choice.bounds),
               newest);
}

void GroupChanges::take_classes(const Engine& engine, ClassBounds bounds, const FoundChanges* newest) {
  bounds_ = std::move(bounds);
  has_far_steps_ = type_.width_bytes == 1 && chooser_.has_far_steps();
  skips_rows_ = should_skip_rows(newest);
  if (skips_rows_) kept_rows_.begin(place_, type_.width_bytes);
  held_.each(type_.width_bytes, [&](std::size_t block, const FoundChanges& changes) { add(engine, block, changes); });
  held_.clear();
}

// As far as the blocks say that there were until now.
bool GroupChanges::should_skip_rows(const FoundChanges* newest) {
  if (!place_.has_rows()) return false;
  kept_rows_.begin(place_, type_.width_bytes);
  held_.each(type_.width_bytes,
             [&](std::size_t block, const FoundChanges& changes) { kept_rows_.keep(block, changes); });
  if (newest != nullptr) kept_rows_.keep(block_count_ - 1, *newest);
  return kept_rows_.pays(element_count_, chooser_.change_count());
}

Strips GroupChanges::choose_strips(bool are_apart) const {
  Strips strips = {place_.first_element / k_block_elements, block_count_,
                   are_apart ? 1 : usual_blocks_in_strip(change_count_, element_count_)};
  while (strips.blocks_in_strip > 1 && (strips.count() == block_count_ || !symbols_.can_make(strips, skips_rows_)))
    strips.blocks_in_strip /= 2;
  return strips;
}

GroupParameters GroupChanges::fit_parameters(const Engine& engine, const Strips& strips) {
  const CodingKernels& coding = engine.kernels->coding;
  symbols_.make(coding, type_, strips);
  GroupParameters parameters;
  parameters.bounds = *bounds_;
  if (symbols_.has_signs()) {
    parameters.mask = sign_mask_chooser_.choose(engine.kernels->signs, symbols_.signs(), element_count_);
    if (!parameters.mask.is_empty()) symbols_.take_signs(*engine.kernels, sign_mask_chooser_.masked_signs());
  }
  const bool is_masked = !parameters.mask.is_empty();
  for (std::size_t k = 0; k <= bounds_->size(); ++k)
    parameters.classes.push_back(fitted(symbols_.counts()[k], is_masked ? Signs::masked : Signs::plain));
  parameters.strips.resize(strips.count());
  for (const StripSymbols& strip : symbols_.strips()) parameters.strips[strip.strip] = strip.counts;
  const ClassLimits limits{.gap_buckets = most_gap_buckets(strips.blocks_in_strip),
                           .magnitude_buckets = most_magnitude_buckets(type_),
                           .is_masked = is_masked};
  like_ = known_.refer(type_, symbols_.counts(), limits, parameters);
  if (skips_rows_) parameters.skipped = kept_rows_.skipped(element_count_);
  return parameters;
}

// Of strips with many changes each is one.
std::uint32_t GroupChanges::choose_batches(const Strips& strips, bool are_apart) {
  std::size_t strips_in_batch = 1;
  if (!are_apart) {
    const std::size_t worth = std::max<std::size_t>(1, (change_count_ + k_batch_changes / 2) / k_batch_changes);
    strips_in_batch = std::min<std::size_t>((strips.count() + worth - 1) / worth, k_most_strips_in_batch);
  }
  while (list_batches(strips_in_batch) > k_most_batch_changes) strips_in_batch = (strips_in_batch + 1) / 2;
  return static_cast<std::uint32_t>(strips_in_batch);
}

// Returns how many changes the largest has.
std::size_t GroupChanges::list_batches(std::size_t strips_in_batch) {
  batches_.clear();
  std::size_t most = 0;
  std::size_t changes = 0;
  std::optional<std::size_t> batch;
  for (const StripSymbols& strip : symbols_.strips()) {
    if (batch != strip.strip / strips_in_batch) {
      batch = strip.strip / strips_in_batch;
      batches_.push_back(0);
      changes = 0;
    }
    ++batches_.back();
    most = std::max(most, changes += strip.change_count);
  }
  return most;
}

std::size_t GroupChanges::enter(const GroupParameters& parameters, std::size_t parameters_bytes) {
  if (like_ != nullptr) return known_.distance_to(*like_);
  known_.add(type_, parameters, parameters_bytes);
  return 0;
}

}  // namespace wdelta
