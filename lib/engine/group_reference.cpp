// SPDX-License-Identifier: Apache-2.0
#include "engine/group_reference.hpp"

#include "engine/bounded_list.hpp"
#include "engine/fixed_log2.hpp"
#include "engine/told_numbers.hpp"

#include <algorithm>
#include <optional>

namespace wdelta {
namespace {

constexpr std::int32_t k_most_rarer = k_last_probability_code;
constexpr std::int32_t k_most_more_gap_buckets = 64;
constexpr std::uint32_t k_most_more_magnitude_buckets = k_magnitude_buckets;
// Of a bucket that the reference has not, or has seen nothing in.
constexpr std::uint8_t k_least_weight_code = 1;

// Orders of exponential Golomb codes.
constexpr std::uint32_t k_rarer_order = 2;
constexpr std::uint32_t k_sign_order = 3;

std::uint8_t rarer_by(std::uint8_t probability, std::int32_t rarer) {
  const std::int32_t moved = static_cast<std::int32_t>(rarity(probability)) + rarer;
  const std::int32_t within = std::clamp<std::int32_t>(moved, 0, k_last_probability_code);
  return static_cast<std::uint8_t>(rarity(static_cast<std::uint32_t>(within)));
}

/// Weights that a reference gives, for so many buckets, none of them without weight.
WeightCodes weights_for(std::uint32_t count, const WeightCodes& given) {
  WeightCodes weights(count, k_least_weight_code);
  for (std::size_t i = 0; i < std::min(weights.size(), given.size()); ++i) weights[i] = std::max(weights[i], given[i]);
  return weights;
}

/// How much rarer changes are than in a reference, in the mean of all of them.
class MeanRarity {
 public:
  void add(std::uint64_t changes, std::uint8_t here, std::uint8_t in_reference) {
    const auto weight = static_cast<std::int64_t>(changes);
    sum_ += weight * (static_cast<std::int64_t>(rarity(here)) - static_cast<std::int64_t>(rarity(in_reference)));
    changes_ += weight;
  }
  std::int32_t mean() const {
    if (changes_ == 0) return 0;
    return static_cast<std::int32_t>((2 * sum_ + (sum_ < 0 ? -changes_ : changes_)) / (2 * changes_));
  }

 private:
  std::int64_t sum_ = 0;
  std::int64_t changes_ = 0;
};

/// For each class the one that stands for it: itself, or where it is not used one next to it.
using UsedClasses = BoundedList<std::size_t, k_most_classes>;
UsedClasses used_classes(std::span<const ClassCoding> classes) {
  UsedClasses used;
  std::size_t last = static_cast<std::size_t>(std::ranges::find_if(classes, &ClassCoding::is_used) - classes.begin());
  for (std::size_t k = 0; k < classes.size(); ++k) {
    if (classes[k].is_used()) last = k;
    used.push_back(last);
  }
  return used;
}

}  // namespace

template <class Exchange>
void ReferenceTerms::exchange(Exchange exchange, bool is_masked) {
  exchange.signed_number(rarer, k_rarer_order, k_most_rarer, "changes are rarer than any may be");
  exchange.signed_number(more_gap_buckets, 0, k_most_more_gap_buckets, "more gap buckets than there are");
  exchange.whole_number(more_magnitude_buckets, 0, k_most_more_magnitude_buckets, "more distances than there are");
  if (!is_masked) return;
  std::uint32_t probability = sign;
  exchange.number(probability, {128, k_sign_order}, {1, 255}, "a sign is always or never set");
  sign = static_cast<std::uint8_t>(probability);
}

void ReferenceTerms::write(BitWriter& bits, bool is_masked) const {
  ReferenceTerms terms = *this;
  terms.exchange(Tell(bits), is_masked);
}

ReferenceTerms ReferenceTerms::read(BitReader& bits, bool is_masked) {
  ReferenceTerms terms;
  terms.exchange(Hear(bits), is_masked);
  return terms;
}

std::vector<ClassCoding> classes_after(const GroupReference& reference, const ReferenceTerms& terms,
                                       const ClassLimits& limits) {
  std::vector<ClassCoding> classes;
  for (const std::size_t k : used_classes(reference.classes)) {
    ClassCoding& coding = classes.emplace_back(reference.classes[k]);
    const auto most = static_cast<std::int32_t>(limits.gap_buckets);
    std::int32_t buckets = 0;
    if (coding.gap_probability) {
      coding.gap_probability = rarer_by(*coding.gap_probability, terms.rarer);
      buckets =
          static_cast<std::int32_t>(expected_gap_buckets(rarity(*coding.gap_probability))) + terms.more_gap_buckets;
    } else {
      buckets = static_cast<std::int32_t>(coding.gap_buckets) + std::max(terms.more_gap_buckets, 0);
    }
    coding.gap_buckets = static_cast<std::uint32_t>(std::clamp(buckets, 1, most));
    if (!coding.gap_probability) coding.gap_weights = weights_for(coding.gap_buckets, coding.gap_weights);
    coding.magnitude_buckets =
        std::min(coding.magnitude_buckets + terms.more_magnitude_buckets, limits.magnitude_buckets);
    if (!coding.magnitude_probability)
      coding.magnitude_weights = weights_for(coding.magnitude_buckets, coding.magnitude_weights);
    coding.sign = terms.sign;
  }
  return classes;
}

std::uint64_t mismatch(std::span<const ClassTotals> totals, const GroupReference& reference) {
  const UsedClasses used = used_classes(reference.classes);
  const auto probability_of = [&](std::size_t k) { return reference.classes[used[k]].gap_probability; };
  MeanRarity rarer;
  for (std::size_t k = 0; k < used.size(); ++k) {
    const auto [elements, changes] = totals[k];
    if (changes == 0 || !probability_of(k)) continue;
    const std::uint8_t here = probability_code(static_cast<double>(changes) / static_cast<double>(elements));
    rarer.add(changes, here, *probability_of(k));
  }
  // Numbers of elements have some digits more than whole ones.
  constexpr unsigned k_digits = 16;
  std::int64_t beyond = 0;
  const auto add = [&](std::uint64_t count, std::uint64_t expected) {
    const std::int64_t bits = std::int64_t{log2_fixed(count << k_digits)} - std::int64_t{log2_fixed(expected)};
    beyond += static_cast<std::int64_t>(count) * bits;
  };
  for (std::size_t k = 0; k < used.size(); ++k) {
    const auto [elements, changes] = totals[k];
    // Where nothing changes no gap is coded.
    if (changes == 0 || !probability_of(k)) continue;
    const std::uint64_t probability = probability_of_code(rarer_by(*probability_of(k), rarer.mean()));
    const std::uint64_t expected = elements * (probability >> (32 - k_digits));
    add(changes, expected);
    add(elements - changes, (elements << k_digits) - expected);
  }
  return static_cast<std::uint64_t>(std::max<std::int64_t>(beyond, 0));
}

ReferenceTerms fitted_terms(std::span<const ClassSymbolCounts> counts, const GroupReference& reference, Signs signs) {
  ReferenceTerms terms;
  std::int64_t changes = 0;
  std::int64_t negatives = 0;
  MeanRarity rarer;
  const UsedClasses used = used_classes(reference.classes);
  for (std::size_t k = 0; k < used.size(); ++k) {
    const std::int64_t of_class = counts[k].changes;
    changes += of_class;
    negatives += counts[k].negatives;
    const auto& probability = reference.classes[used[k]].gap_probability;
    if (of_class == 0 || !probability) continue;
    rarer.add(counts[k].changes, fitted_gap_probability(counts[k]), *probability);
  }
  terms.rarer = rarer.mean();
  if (signs == Signs::masked) {
    terms.sign = sign_probability(static_cast<std::uint64_t>(negatives), static_cast<std::uint64_t>(changes));
  }

  std::optional<std::int32_t> more_gap_buckets;
  for (std::size_t k = 0; k < used.size(); ++k) {
    if (counts[k].changes == 0) continue;
    const ClassCoding& known = reference.classes[used[k]];
    const std::uint32_t usual = known.gap_probability
                                    ? expected_gap_buckets(rarity(rarer_by(*known.gap_probability, terms.rarer)))
                                    : known.gap_buckets;
    const auto more = static_cast<std::int32_t>(used_buckets(counts[k].gaps)) - static_cast<std::int32_t>(usual);
    // Of weights that are given none are left out.
    if (known.gap_probability || more > 0) more_gap_buckets = std::max(more_gap_buckets.value_or(more), more);
    const std::uint32_t magnitudes = used_buckets(magnitudes_of(counts[k]));
    if (magnitudes > known.magnitude_buckets) {
      terms.more_magnitude_buckets = std::max(terms.more_magnitude_buckets, magnitudes - known.magnitude_buckets);
    }
  }
  terms.more_gap_buckets = more_gap_buckets.value_or(0);
  return terms;
}

}  // namespace wdelta
