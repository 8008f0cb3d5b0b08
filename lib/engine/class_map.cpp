// SPDX-License-Identifier: Apache-2.0
#include "engine/class_map.hpp"

#include "engine/fixed_log2.hpp"
#include "engine/strips.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

namespace wdelta {
namespace {

// What one more class should save: the bits that it takes in the tables, and in the counts of each strip; and some more
// for its time, which are no part of what it costs.
constexpr std::uint64_t k_class_bits = 32;
constexpr std::uint64_t k_class_time_bits = 24;
constexpr std::uint64_t k_class_bits_per_strip = 6;
// About what it takes to tell all classes by what they are like in a reference.
constexpr std::uint64_t k_reference_bits = 16;
// Of all bits: what a class should save beyond what it takes, and what a class in the middle of several contexts
// should.
constexpr std::uint64_t k_worthless_part = 512;
// Of this many elements one piece of 64 is counted: at first one in 16, later, when many have been seen, one in 32.
constexpr std::size_t k_piece_elements = 64;
constexpr std::size_t k_every_elements = 1024;
constexpr std::size_t k_every_elements_later = 2048;
constexpr std::size_t k_many_elements = 2 * k_block_elements;
// Neighbouring contexts are taken as one until no more than this many are left.
constexpr std::size_t k_most_runs = 32;

template <class T>
T load(const void* array, std::size_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void ClassChooser::join(ContextCounts& counts, const ContextCounts& others) const {
  counts.elements += others.elements;
  for (std::size_t i = 0; i < distance_count_; ++i) counts.changes[i] += others.changes[i];
}

// The entropy of which elements change, and of how far.
std::uint64_t ClassChooser::cost_as_one_class(const ContextCounts& counts) const {
  std::uint64_t changed = 0;
  std::uint64_t distances = 0;
  for (std::size_t i = 0; i < distance_count_; ++i) {
    changed += counts.changes[i];
    distances += n_log2_n(counts.changes[i]);
  }
  return n_log2_n(counts.elements) - n_log2_n(counts.elements - changed) - distances;
}

void ClassChooser::clear() {
  // Most contexts never occur, and all together they are larger than the first-level cache.
  for (std::size_t context = 0; context < contexts_.size(); ++context) {
    if (is_counted_[context]) contexts_[context] = {};
  }
  is_counted_.fill(false);
  element_count_ = 0;
  change_count_ = 0;
  distance_count_ = 0;
}

void ClassChooser::count(std::span<const std::uint8_t> base, ElementType type, std::span<const std::uint16_t> positions,
                         const void* steps) {
  with_narrow_width(type.width_bytes, [&]<class T>(T) {
    const std::size_t element_count = base.size() / sizeof(T);
    const std::size_t every = element_count_ < k_many_elements ? k_every_elements : k_every_elements_later;
    const auto context_at = [&](std::size_t i) { return context_of(load<T>(base.data(), i), type.kind); };
    // Few contexts are most elements: counted in turns, so that a count does not wait for the one just before.
    std::array<std::array<std::uint32_t, 256>, 4> counts{};
    std::size_t first = 0;
    for (; first + every <= element_count; first += every) {
      for (std::size_t i = first; i < first + k_piece_elements; i += 4) {
#pragma GCC unroll 4
        for (std::size_t turn = 0; turn < 4; ++turn) ++counts[turn][context_at(i + turn)];
      }
    }
    // A piece stands for all up to the next.
    const std::size_t weight = every / k_piece_elements;
    for (std::size_t context = 0; context < contexts_.size(); ++context) {
      const std::uint64_t count =
          std::uint64_t{counts[0][context]} + counts[1][context] + counts[2][context] + counts[3][context];
      if (count == 0) continue;
      contexts_[context].elements += count * weight;
      is_counted_[context] = true;
    }
    const std::size_t last = std::min(first + k_piece_elements, element_count);
    const std::size_t last_weight =
        first == last ? 1 : std::max<std::size_t>(1, (element_count - first) / (last - first));
    for (std::size_t i = first; i < last; ++i) {
      contexts_[context_at(i)].elements += last_weight;
      is_counted_[context_at(i)] = true;
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::size_t position = positions[i];
      const std::uint8_t at = context_at(position);
      is_counted_[at] = true;
      ContextCounts& context = contexts_[at];
      // All changes are known: an element that changes stands for itself alone, wherever it lies. Where most of a
      // context change, next to nothing is left to chance so.
      if (position % every < k_piece_elements) context.elements -= position < first ? weight : last_weight;
      ++context.elements;
      // Of steps 1, 2, 3, 4 the distances are 1, 1, 2, 2.
      const auto beyond_one = static_cast<std::uint32_t>((load<T>(steps, i) - 1U) / 2);
      const std::size_t distance =
          beyond_one < 4 ? beyond_one : static_cast<std::size_t>(std::bit_width(beyond_one)) + 1;
      distance_count_ = std::max(distance_count_, distance + 1);
      ++context.changes[distance];
    }
    element_count_ += element_count;
    change_count_ += positions.size();
  });
}

bool ClassChooser::has_far_steps() const {
  std::uint64_t raw_bits = 0;
  for (const ContextCounts& context : contexts_) {
    for (std::size_t i = 4; i < k_distances; ++i) raw_bits += context.changes[i] * (i - 3);
  }
  return 2 * raw_bits >= 3 * change_count_;
}

// Contexts that hardly occur join their neighbours.
std::vector<ClassChooser::Run> ClassChooser::runs() const {
  std::vector<Run> runs;
  std::uint64_t least = 0;
  do {
    runs.clear();
    for (std::size_t context = 0; context < contexts_.size(); ++context) {
      if (!is_counted_[context] || contexts_[context].elements == 0) continue;
      const ContextCounts& counts = contexts_[context];
      if (!runs.empty() && runs.back().counts.elements < least) {
        join(runs.back().counts, counts);
      } else {
        runs.push_back({static_cast<std::uint8_t>(context), counts});
      }
    }
    least = least * 2 + 64;
  } while (runs.size() > k_most_runs);
  return runs;
}

// What a class costs is paid once for all elements that are coded with it, not only for those counted here.
std::uint64_t ClassChooser::shared_cost(std::uint64_t bits, std::uint64_t coded_elements) const {
  return (bits << 16) * element_count_ / std::max(element_count_, coded_elements);
}

// Of the numbers of changes of one class.
std::uint64_t ClassChooser::strip_bits(std::uint64_t coded_elements) const {
  const std::uint64_t strip_elements =
      std::uint64_t{usual_blocks_in_strip(change_count_, element_count_)} * k_block_elements;
  return k_class_bits_per_strip * (std::max(element_count_, coded_elements) / strip_elements + 1);
}

std::uint64_t ClassChooser::least_cost() const {
  std::uint64_t cost = 0;
  for (std::size_t context = 0; context < contexts_.size(); ++context) {
    if (is_counted_[context]) cost += cost_as_one_class(contexts_[context]);
  }
  return cost;
}

ClassChooser::Priced ClassChooser::price_of_known(const ClassBounds& bounds, std::uint64_t coded_elements) const {
  std::array<ContextCounts, k_most_classes> classes{};
  for (std::size_t context = 0; context < contexts_.size(); ++context) {
    if (is_counted_[context]) join(classes[class_of(static_cast<std::uint8_t>(context), bounds)], contexts_[context]);
  }
  const std::size_t class_count = bounds.size() + 1;
  Priced priced{shared_cost(k_reference_bits + class_count * strip_bits(coded_elements), coded_elements), {}};
  for (const ContextCounts& counts : std::span(classes).first(class_count)) {
    priced.cost += cost_as_one_class(counts);
    priced.totals.push_back(
        {counts.elements, std::accumulate(counts.changes.begin(), counts.changes.end(), std::uint64_t{0})});
  }
  return priced;
}

ClassChooser::Choice ClassChooser::choose(std::uint32_t most_classes, std::uint64_t coded_elements) const {
  const std::vector<Run> runs = this->runs();
  const std::uint64_t class_cost =
      shared_cost(k_class_bits + k_class_time_bits + strip_bits(coded_elements), coded_elements);

  // cheapest[k][j]: the first j runs in k classes; cut[k][j]: where the last of them begins.
  const std::size_t n = runs.size();
  constexpr std::uint64_t k_never = std::numeric_limits<std::uint64_t>::max() / 2;
  std::array<std::array<std::uint64_t, k_most_runs + 1>, k_most_classes + 1> cheapest;
  std::array<std::array<std::size_t, k_most_runs + 1>, k_most_classes + 1> cut{};
  for (auto& of_classes : cheapest) of_classes.fill(k_never);
  cheapest[0][0] = 0;
  ContextCounts all;
  for (const Run& run : runs) join(all, run.counts);
  const std::uint64_t worthless = cost_as_one_class(all) / k_worthless_part;
  for (std::size_t first = 0; first < n; ++first) {
    ContextCounts together;
    for (std::size_t last = first; last < n; ++last) {
      join(together, runs[last].counts);
      // Single runs, and all from one on, are likely to be classes of the next delta too: of a chain of them, elements
      // are then looked at for all at once. What would join two in the middle goes now this way, now that.
      const bool is_likely = first == last || first == 0 || last + 1 == n;
      const std::uint64_t cost = cost_as_one_class(together) + class_cost + (is_likely ? 0 : worthless);
      for (std::size_t k = 1; k <= most_classes; ++k) {
        if (cheapest[k - 1][first] + cost < cheapest[k][last + 1]) {
          cheapest[k][last + 1] = cheapest[k - 1][first] + cost;
          cut[k][last + 1] = first;
        }
      }
    }
  }
  // Each class takes time on both sides, so that the last few should save something worth having.
  std::uint64_t least = cheapest[1][n];
  for (std::size_t k = 2; k <= most_classes; ++k) least = std::min(least, cheapest[k][n]);
  std::size_t classes = 1;
  while (cheapest[classes][n] > least + least / k_worthless_part) ++classes;
  Choice choice{{}, cheapest[classes][n] - shared_cost(classes * k_class_time_bits, coded_elements)};
  for (std::size_t at = n; classes > 1; --classes) {
    at = cut[classes][at];
    choice.bounds.insert(choice.bounds.begin(), runs[at].first);
  }
  return choice;
}

}  // namespace wdelta
