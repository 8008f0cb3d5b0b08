// SPDX-License-Identifier: Apache-2.0
#include "engine/group_tables.hpp"

#include "engine/bits.hpp"
#include "engine/count_model.hpp"
#include "engine/told_numbers.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace wdelta {
namespace {

[[noreturn]] void refuse(const std::string& what) { refuse_group_parameters(what); }

ClassBounds read_bounds(BitReader& bits, std::uint32_t count) {
  ClassBounds bounds;
  std::uint64_t bound = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t before = bound;
    bound = k == 0 ? bits.read(8) : before + 1 + bits.read_exp_golomb(0);
    if (bits.is_overrun()) refuse("they are cut off");
    if (bound <= before) refuse("bounds do not ascend");
    if (bound > 255) refuse("a bound is no context");
    bounds.push_back(static_cast<std::uint8_t>(bound));
  }
  return bounds;
}

void write_bounds(BitWriter& bits, const ClassBounds& bounds) {
  for (std::size_t k = 0; k < bounds.size(); ++k) {
    if (k == 0) {
      bits.write(bounds[k], 8);
    } else {
      bits.write_exp_golomb(bounds[k] - bounds[k - 1] - 1U, 0);
    }
  }
}

void write_line_bits(BitWriter& bits, const std::vector<std::uint8_t>& bytes) {
  for (const std::uint8_t byte : bytes) bits.write(byte, 8);
}

std::vector<std::uint8_t> read_line_bits(BitReader& bits, std::uint64_t count) {
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t left = (count + 7) / 8; left > 0; --left) {
    bytes.push_back(static_cast<std::uint8_t>(bits.read(8)));
    if (bits.is_overrun()) refuse("they are cut off");
  }
  return bytes;
}

using CountModels = std::array<CountModel, k_most_classes>;
// Of the exponential Golomb code of how many changes a first strip has.
constexpr std::uint32_t k_total_order = 6;

std::span<const std::uint64_t> shares_of(const GroupReference& reference) {
  return std::span(reference.changes).first(reference.classes.size());
}

void write_counts(BitWriter& bits, const GroupParameters& group, const GroupReference* reference) {
  CountModels models;
  bool is_first = true;
  for (const ClassCounts& counts : group.strips) {
    bits.write(is_classed(counts) ? 1 : 0, 1);
    if (!is_classed(counts)) continue;
    std::optional<CountShares> shares;
    if (is_first && reference != nullptr) {
      const std::uint32_t total = std::accumulate(counts.begin(), counts.end(), 0U);
      bits.write_exp_golomb(total, k_total_order);
      shares.emplace(shares_of(*reference), total);
    }
    std::uint32_t before = 0;
    for (std::uint32_t k = 0; k < group.class_count(); ++k) {
      if (!group.classes[k].is_used()) continue;
      if (shares) {
        shares->write(counts[k], bits);
        models[k].begin(counts[k]);
      } else {
        if (is_first) models[k].expect(before);
        models[k].write(counts[k], bits);
        before = counts[k];
      }
    }
    is_first = false;
  }
}

class CountReader {
 public:
  CountReader(BitReader& bits, const std::vector<ClassCoding>& classes, const GroupReference* reference)
      : bits_(&bits), classes_(classes), reference_(reference) {}

  /// Of the next classed strip.
  ClassCounts read() {
    ClassCounts counts{};
    if (std::exchange(is_first_, false)) {
      if (reference_ != nullptr) {
        read_shares(counts);
        return counts;
      }
      std::uint32_t before = 0;
      for (std::uint32_t k = 0; k < classes_.size(); ++k) {
        if (!classes_[k].is_used()) continue;
        models_[k].expect(before);
        counts[k] = before = read_one(k);
      }
      return counts;
    }
    for (std::uint32_t k = 0; k < classes_.size(); ++k) {
      if (classes_[k].is_used()) counts[k] = read_one(k);
    }
    return counts;
  }

 private:
  std::uint32_t read_one(std::uint32_t k) {
    const std::int64_t count = models_[k].read(*bits_, k_most_batch_changes);
    if (count < 0 || count > k_most_batch_changes)
      refuse("a strip has fewer changes of a class than none, or more than any may have");
    return static_cast<std::uint32_t>(count);
  }
  void read_shares(ClassCounts& counts) {
    const std::uint32_t total = bits_->read_exp_golomb(k_total_order);
    if (total > k_most_batch_changes) refuse("a strip has more changes than any may have");
    CountShares shares(shares_of(*reference_), total);
    for (std::uint32_t k = 0; k < classes_.size(); ++k) {
      const std::uint32_t left = shares.left();
      const std::int64_t count = shares.read(*bits_);
      if (count < 0 || count > left) refuse("a strip has fewer changes of a class than none, or more than are left");
      counts[k] = static_cast<std::uint32_t>(count);
      models_[k].begin(counts[k]);
    }
  }

  BitReader* bits_;
  std::span<const ClassCoding> classes_;
  const GroupReference* reference_;
  CountModels models_;
  bool is_first_ = true;
};

void read_strips(BitReader& bits, const GroupShape& shape, const GroupReference* reference, GroupParameters& group) {
  CountReader reader(bits, group.classes, reference);
  const Strips strips = shape.strips();
  for (std::uint64_t strip = 0; strip < strips.count(); ++strip) {
    ClassCounts& counts = group.strips.emplace_back();
    if (bits.is_overrun()) refuse("they are cut off");
    if (bits.read(1) == 0) continue;
    counts = reader.read();
    const std::uint64_t changes = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    const std::uint64_t elements = shape.elements_of(strips.blocks_of(strip));
    if (changes == 0 || changes > elements) {
      refuse("a strip has " + std::to_string(changes) + " changes in " + std::to_string(elements) + " elements");
    }
  }
  if (bits.is_overrun()) refuse("they are cut off");
  if (std::ranges::none_of(group.strips, is_classed)) refuse("no strip needs any");
}

struct HasMask {
  bool columns;
  bool rows;
  bool any() const { return columns || rows; }
};

// All up to the masks.
GroupParameters read_front(BitReader& bits, const GroupShape& shape, const GroupReference* reference,
                           HasMask& has_mask) {
  if (shape.type.width_bytes > 4) refuse("elements of 8 bytes have none");
  has_mask.columns = bits.read(1) != 0;
  has_mask.rows = bits.read(1) != 0;
  const ClassLimits limits{.gap_buckets = most_gap_buckets(shape.blocks_in_strip),
                           .magnitude_buckets = most_magnitude_buckets(shape.type),
                           .is_masked = has_mask.any()};
  GroupParameters group;
  if (reference != nullptr) {
    group.bounds = reference->bounds;
    group.terms = ReferenceTerms::read(bits, has_mask.any());
    group.classes = classes_after(*reference, *group.terms, limits);
  } else {
    const std::uint32_t class_count = bits.read(4) + 1;
    group.bounds = read_bounds(bits, class_count - 1);
    ClassSeries series(limits);
    for (std::uint32_t k = 0; k < class_count; ++k) group.classes.push_back(series.read(bits));
  }
  read_strips(bits, shape, reference, group);
  return group;
}

}  // namespace

void GroupParameters::write(std::vector<std::uint8_t>& bytes, const GroupReference* reference) const {
  BitWriter bits(bytes);
  bits.write(mask.columns.empty() ? 0 : 1, 1);
  bits.write(mask.rows.empty() ? 0 : 1, 1);
  if (terms) {
    terms->write(bits, !mask.is_empty());
  } else {
    bits.write(class_count() - 1, 4);
    write_bounds(bits, bounds);
    // No reader's limits hold for what is written.
    ClassSeries series({.gap_buckets = 0, .magnitude_buckets = 0, .is_masked = !mask.is_empty()});
    for (const ClassCoding& coding : classes) series.write(coding, bits);
  }
  write_counts(bits, *this, terms ? reference : nullptr);
  write_line_bits(bits, mask.columns);
  write_line_bits(bits, mask.rows);
  bits.finish();
}

GroupReference GroupParameters::as_reference() const {
  GroupReference reference{bounds, classes, {}};
  for (const ClassCounts& counts : strips) {
    for (std::uint32_t k = 0; k < class_count(); ++k) reference.changes[k] += counts[k];
  }
  return reference;
}

GroupParameters read_group_parameters(std::span<const std::uint8_t> bytes, const GroupShape& shape,
                                      const GroupReference* reference) {
  BitReader bits(bytes);
  HasMask has_mask{};
  GroupParameters group = read_front(bits, shape, reference, has_mask);
  if (has_mask.any() && !shape.place.has_rows()) refuse("a sign mask for what is no matrix");
  if (has_mask.columns) group.mask.columns = read_line_bits(bits, shape.place.row_elements);
  if (has_mask.rows) group.mask.rows = read_line_bits(bits, shape.place.row_count(shape.element_count));
  if (!bits.is_at_end()) refuse("bytes left over");
  return group;
}

GroupReference read_group_reference(std::span<const std::uint8_t> bytes, const GroupShape& shape) {
  BitReader bits(bytes);
  HasMask has_mask{};
  return read_front(bits, shape, nullptr, has_mask).as_reference();
}

}  // namespace wdelta
