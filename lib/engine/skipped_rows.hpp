// SPDX-License-Identifier: Apache-2.0
// Rows of a group in which nothing changes, and which therefore are in no class (wdelta-delta.5, "Skipped rows"). A row
// that lies in two blocks counts as two: its part in either.
#pragma once

#include "engine/bits.hpp"
#include "engine/sign_mask.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// Elements of a group, counted from its first one.
struct ElementRange {
  std::uint64_t begin;
  std::uint64_t end;

  std::uint64_t size() const { return end - begin; }
};

/// How the blocks of a group cut rows. The group begins with a block, and has rows.
class RowParts {
 public:
  RowParts(const MatrixPlace& place, std::uint64_t element_count) : place_(place), element_count_(element_count) {}

  std::uint64_t count() const;
  /// The number of the one that an element is in.
  std::uint64_t of(std::uint64_t element) const;
  ElementRange at(std::uint64_t number) const;

 private:
  std::uint64_t before(std::uint64_t block) const;
  std::uint64_t row_of(std::uint64_t element) const { return (place_.first_element + element) / place_.row_elements; }

  MatrixPlace place_;
  std::uint64_t element_count_;
};

/// Which parts are skipped: how many before each one that is not, in order, and how many behind the last.
struct SkippedRows {
  std::vector<std::uint32_t> numbers;  ///< as they are told: the last one only where it is not 0

  bool is_empty() const { return numbers.empty(); }
  void write(BitWriter& bits) const;
  /// Throws Error(corrupt) with an empty object.
  static SkippedRows read(BitReader& bits, const RowParts& parts);
};
/// How many bits they take.
std::uint64_t told_bits(const SkippedRows& skipped);

/// What is left, in order; of those that touch one is made, unless a block ends between them.
std::vector<ElementRange> kept_ranges(const SkippedRows& skipped, const RowParts& parts);
/// Those in a block.
std::span<const ElementRange> kept_in_block(std::span<const ElementRange> kept, std::uint64_t block);

}  // namespace wdelta
