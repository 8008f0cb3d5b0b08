// SPDX-License-Identifier: Apache-2.0
#include "engine/group_tables.hpp"

#include "engine/bits.hpp"
#include "engine/count_model.hpp"

#include <algorithm>
#include <string>

namespace wdelta {
namespace {

constexpr std::uint32_t k_has_columns = 0x10;
constexpr std::uint32_t k_has_rows = 0x20;
constexpr std::uint32_t k_is_brief = 0x40;
constexpr std::uint32_t k_reserved = 0x80;

[[noreturn]] void refuse(const std::string& what) { refuse_group_parameters(what); }

ClassBounds read_bounds(BitReader& bits, std::uint32_t count, bool is_brief) {
  ClassBounds bounds;
  std::uint64_t bound = 0;
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint64_t before = bound;
    bound = is_brief && k > 0 ? before + 1 + bits.read_exp_golomb(0) : bits.read(8);
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

void read_counts(BitReader& bits, const GroupShape& shape, bool is_brief, GroupParameters& group) {
  std::array<CountModel, k_most_classes> models;
  const Strips strips = shape.strips();
  bool is_foretold = is_brief;  // the first classed strip, class by class
  for (std::uint64_t strip = 0; strip < strips.count(); ++strip) {
    ClassCounts& counts = group.strips.emplace_back();
    if (bits.is_overrun()) refuse("they are cut off");
    if (bits.read(1) == 0) continue;
    std::uint64_t changes = 0;
    std::uint32_t before = 0;
    for (std::uint32_t k = 0; k < group.class_count(); ++k) {
      if (!group.classes[k].is_used()) continue;
      if (is_foretold) models[k].expect(before);
      const std::int64_t count = models[k].read(bits, k_most_batch_changes);
      if (count < 0 || count > k_most_batch_changes)
        refuse("a strip has fewer changes of a class than none, or more than any may have");
      counts[k] = before = static_cast<std::uint32_t>(count);
      changes += counts[k];
    }
    is_foretold = false;
    const std::uint64_t elements = shape.elements_of(strips.blocks_of(strip));
    if (changes == 0 || changes > elements) {
      refuse("a strip has " + std::to_string(changes) + " changes in " + std::to_string(elements) + " elements");
    }
  }
}

void write_counts(BitWriter& bits, const GroupParameters& group) {
  std::array<CountModel, k_most_classes> models;
  bool is_foretold = true;
  for (const ClassCounts& counts : group.strips) {
    bits.write(is_classed(counts) ? 1 : 0, 1);
    if (!is_classed(counts)) continue;
    std::uint32_t before = 0;
    for (std::uint32_t k = 0; k < group.class_count(); ++k) {
      if (!group.classes[k].is_used()) continue;
      if (is_foretold) models[k].expect(before);
      models[k].write(counts[k], bits);
      before = counts[k];
    }
    is_foretold = false;
  }
}

}  // namespace

void GroupParameters::write(std::vector<std::uint8_t>& bytes) const {
  BitWriter bits(bytes);
  std::uint32_t head = k_is_brief | (class_count() - 1);
  if (!mask.columns.empty()) head |= k_has_columns;
  if (!mask.rows.empty()) head |= k_has_rows;
  bits.write(head, 8);
  write_bounds(bits, bounds);
  // No reader's limits hold for what is written.
  BriefClasses brief({.gap_buckets = 0, .magnitude_buckets = 0, .is_masked = !mask.is_empty()});
  for (const ClassCoding& coding : classes) brief.write(coding, bits);
  write_line_bits(bits, mask.columns);
  write_line_bits(bits, mask.rows);
  write_counts(bits, *this);
  bits.finish();
}

GroupParameters read_group_parameters(std::span<const std::uint8_t> bytes, const GroupShape& shape) {
  GroupParameters group;
  BitReader bits(bytes);
  const std::uint32_t head = bits.read(8);
  if ((head & k_reserved) != 0) refuse("they set a bit that is kept for later versions");
  if (shape.type.width_bytes > 4) refuse("elements of 8 bytes have none");
  const bool is_brief = (head & k_is_brief) != 0;
  group.bounds = read_bounds(bits, head & 0x0f, is_brief);
  const bool has_columns = (head & k_has_columns) != 0;
  const bool has_rows = (head & k_has_rows) != 0;
  if ((has_columns || has_rows) && !shape.place.has_rows()) refuse("a sign mask for what is no matrix");
  const ClassLimits limits{.gap_buckets = most_gap_buckets(shape.blocks_in_strip),
                           .magnitude_buckets = 2 * (8U * shape.type.width_bytes - 1),
                           .is_masked = has_columns || has_rows};
  BriefClasses brief(limits);
  for (std::uint32_t k = 0; k <= (head & 0x0f); ++k) {
    group.classes.push_back(is_brief ? brief.read(bits) : read_class(bits, limits));
  }
  if (has_columns) group.mask.columns = read_line_bits(bits, shape.place.row_elements);
  if (has_rows) group.mask.rows = read_line_bits(bits, shape.place.row_count(shape.element_count));
  read_counts(bits, shape, is_brief, group);
  if (bits.is_overrun()) refuse("they are cut off");
  if (!bits.is_at_end()) refuse("bytes left over");
  if (std::ranges::none_of(group.strips, is_classed)) refuse("no strip needs any");
  return group;
}

}  // namespace wdelta
