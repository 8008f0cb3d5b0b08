// SPDX-License-Identifier: Apache-2.0
// The parameters of a group of blocks (wdelta-delta.5, "Groups"): what is said once for all of them. Writer and reader
// side by side.
#pragma once

#include "engine/class_coding.hpp"
#include "engine/class_map.hpp"
#include "engine/group_reference.hpp"
#include "engine/sign_mask.hpp"
#include "engine/skipped_rows.hpp"
#include "engine/strips.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// Changes in one strip by class; all 0 where it is not classed.
using ClassCounts = std::array<std::uint32_t, k_most_classes>;

/// A classed strip has at least one change.
inline bool is_classed(const ClassCounts& counts) {
  return std::ranges::any_of(counts, [](std::uint32_t count) { return count != 0; });
}

struct GroupParameters {
  ClassBounds bounds;
  std::vector<ClassCoding> classes;  ///< bounds.size() + 1
  SignMask mask;
  std::vector<ClassCounts> strips;
  SkippedRows skipped;
  /// Where the group has a reference: how the classes follow from that one's. The bounds are the same.
  std::optional<ReferenceTerms> terms;

  std::uint32_t class_count() const { return static_cast<std::uint32_t>(classes.size()); }
  /// Appends them to `bytes`. Where there are terms, `reference` is what they are about; else it is not asked.
  void write(std::vector<std::uint8_t>& bytes, const GroupReference* reference) const;
  /// What those that refer to it take from it.
  GroupReference as_reference() const;
};

/// What a group's parameters are about.
struct GroupShape {
  ElementType type;
  std::uint64_t block_count = 0;
  std::uint64_t element_count = 0;
  MatrixPlace place;
  std::uint32_t blocks_in_strip = 1;

  RowParts row_parts() const { return {place, element_count}; }
  Strips strips() const { return {place.first_element / k_block_elements, block_count, blocks_in_strip}; }
  std::uint64_t elements_of(const IndexRange& blocks) const {
    return std::min(blocks.end * k_block_elements, element_count) - blocks.first * k_block_elements;
  }
};

/// Reads parameters, of a group that refers to `reference` unless that is null. Throws Error(corrupt) with an empty
/// object.
GroupParameters read_group_parameters(std::span<const std::uint8_t> bytes, const GroupShape& shape,
                                      const GroupReference* reference);
/// Up to their masks the parameters of a group that is referred to take no more: whoever refers has to read them.
inline constexpr std::size_t k_most_reference_bytes = 65536;
/// Reads what they say to those that refer to them; `bytes` need not go further than that. Of `shape`, the type is that
/// of who refers; where its blocks lie in a matrix is not asked. Throws the same.
GroupReference read_group_reference(std::span<const std::uint8_t> bytes, const GroupShape& shape);

/// How many gap buckets a class may have.
constexpr std::uint32_t most_gap_buckets(std::uint32_t blocks_in_strip) {
  return 32 + 2 * (static_cast<std::uint32_t>(std::bit_width(blocks_in_strip)) - 1);
}
static_assert(most_gap_buckets(k_most_blocks_in_strip) == k_gap_buckets);
/// How many distance buckets.
constexpr std::uint32_t most_magnitude_buckets(ElementType type) { return 2 * (8U * type.width_bytes - 1); }

/// Strips that may be coded together, and changes that these may have.
inline constexpr std::uint32_t k_most_strips_in_batch = 64;
inline constexpr std::uint32_t k_most_batch_changes = 65536;
static_assert(k_most_batch_changes >= k_block_elements);

/// Coders that work side by side on a batch with so many changes.
constexpr std::uint32_t lanes_for(std::uint32_t changes) {
  return changes < 128 ? 1 : changes < 256 ? 2 : changes < 512 ? 4 : 8;
}
/// Bytes of raw bits that the coders' first states hold.
constexpr std::uint32_t state_payload_bytes(std::uint32_t lanes) { return 15 * lanes / 8; }

}  // namespace wdelta
