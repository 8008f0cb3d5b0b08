// SPDX-License-Identifier: Apache-2.0
#include "engine/group_tables.hpp"

#include "engine/bits.hpp"
#include "engine/count_model.hpp"
#include "engine/told_numbers.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace wdelta {
namespace {

[[noreturn]] void refuse(const std::string& what) { refuse_group_parameters(what); }

ClassBounds read_bounds(BitReader& bits, std::uint32_t count) {
  ClassBounds bounds;
  std::uint64_t bound = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t before = bound;
    bound = k == 0 ? bits.read(8) : before + 1 + bits.read_exp_golomb(0);
    require_whole(bits);
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

std::vector<std::uint8_t> read_line_bits(BitReader& bits, std::uint64_t count) {
  std::vector<std::uint8_t> bytes;
  for (std::uint64_t left = (count + 7) / 8; left > 0; --left) {
    bytes.push_back(static_cast<std::uint8_t>(bits.read(8)));
    require_whole(bits);
  }
  return bytes;
}

void write_strips(BitWriter& bits, const GroupParameters& group, const GroupReference* reference) {
  CountSeries series(group.classes, reference);
  for (ClassCounts counts : group.strips) series.exchange(Tell(bits), counts);
}

void read_strips(BitReader& bits, const GroupShape& shape, const GroupReference* reference, GroupParameters& group) {
  CountSeries series(group.classes, reference);
  const Strips strips = shape.strips();
  for (std::uint64_t strip = 0; strip < strips.count(); ++strip) {
    ClassCounts& counts = group.strips.emplace_back();
    if (!series.exchange(Hear(bits), counts)) continue;
    const std::uint64_t changes = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
    const std::uint64_t elements = shape.elements_of(strips.blocks_of(strip));
    if (changes == 0 || changes > elements) {
      refuse("a strip has " + std::to_string(changes) + " changes in " + std::to_string(elements) + " elements");
    }
  }
  if (std::ranges::none_of(group.strips, is_classed)) refuse("no strip needs any");
}

struct Parts {
  bool column_mask;
  bool row_mask;
  bool skipped_rows;
  bool has_mask() const { return column_mask || row_mask; }
};

// All up to the masks.
GroupParameters read_front(BitReader& bits, const GroupShape& shape, const GroupReference* reference, Parts& parts) {
  if (shape.type.width_bytes > 4) refuse("elements of 8 bytes have none");
  parts.column_mask = bits.read(1) != 0;
  parts.row_mask = bits.read(1) != 0;
  parts.skipped_rows = bits.read(1) != 0;
  const ClassLimits limits{.gap_buckets = most_gap_buckets(shape.blocks_in_strip),
                           .magnitude_buckets = most_magnitude_buckets(shape.type),
                           .is_masked = parts.has_mask()};
  GroupParameters group;
  if (reference != nullptr) {
    group.bounds = reference->bounds;
    group.terms = ReferenceTerms::read(bits, parts.has_mask());
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
  bits.write(skipped.is_empty() ? 0 : 1, 1);
  if (terms) {
    terms->write(bits, !mask.is_empty());
  } else {
    bits.write(class_count() - 1, 4);
    write_bounds(bits, bounds);
    // No reader's limits hold for what is written.
    ClassSeries series({.gap_buckets = 0, .magnitude_buckets = 0, .is_masked = !mask.is_empty()});
    for (const ClassCoding& coding : classes) series.write(coding, bits);
  }
  write_strips(bits, *this, terms ? reference : nullptr);
  bits.write_bytes(mask.columns);
  bits.write_bytes(mask.rows);
  if (!skipped.is_empty()) skipped.write(bits);
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
  Parts parts{};
  GroupParameters group = read_front(bits, shape, reference, parts);
  if (parts.has_mask() && !shape.place.has_rows()) refuse("a sign mask for what is no matrix");
  if (parts.skipped_rows && !shape.place.has_rows()) refuse("skipped rows of what is no matrix");
  if (parts.column_mask) group.mask.columns = read_line_bits(bits, shape.place.row_elements);
  if (parts.row_mask) group.mask.rows = read_line_bits(bits, shape.place.row_count(shape.element_count));
  if (parts.skipped_rows) group.skipped = SkippedRows::read(bits, shape.row_parts());
  if (!bits.is_at_end()) refuse("bytes left over");
  return group;
}

GroupReference read_group_reference(std::span<const std::uint8_t> bytes, const GroupShape& shape) {
  BitReader bits(bytes);
  Parts parts{};
  return read_front(bits, shape, nullptr, parts).as_reference();
}

}  // namespace wdelta
