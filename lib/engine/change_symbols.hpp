// SPDX-License-Identifier: Apache-2.0
// The changes of a group's blocks, gathered class by class and, once it is known which blocks make strips, taken apart
// into symbols and raw bits (wdelta-delta.5, "Classed blocks").
#pragma once

#include "engine/class_fit.hpp"
#include "engine/class_map.hpp"
#include "engine/engine.hpp"
#include "engine/group_tables.hpp"
#include "engine/scratch_vector.hpp"
#include "engine/sign_rows.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// What find_changes() found in one block: `steps` are as wide as its elements.
struct FoundChanges {
  std::span<const std::uint8_t> base;
  std::span<const std::uint16_t> positions;
  const void* steps;
};

/// The same, and where each lies in its class: what rank_changes() says.
struct RankedChanges {
  std::span<const std::uint16_t> positions;
  const void* steps;
  const std::uint16_t* ranks;
  const std::uint8_t* classes;
  const std::uint32_t* members;
};

/// Where the symbols of one strip are.
struct StripSymbols {
  std::uint64_t strip = 0;  ///< its number in the group
  ClassCounts counts{};
  std::size_t first_change = 0;
  std::size_t change_count = 0;
  std::size_t raw_begin = 0;  ///< in bytes
  std::size_t raw_bits = 0;
};

/// Keeps its memory from group to group.
class ChangeSymbols {
 public:
  ChangeSymbols();

  /// Forgets the group before. Where its elements are a matrix with rows, signs are kept too.
  void begin(const MatrixPlace& place);
  /// Appends the changes of one block, which has that number in the group; blocks come in order. `positions`: where
  /// they lie in the block, of which `found` may have only a part.
  void add(const Engine& engine, ElementType type, const ClassBounds& bounds, std::uint64_t block,
           const FoundChanges& found, std::span<const std::uint16_t> positions);
  /// The same where ranks and classes, of so many, are known already.
  void add(const KernelTable& kernels, ElementType type, std::uint32_t class_count, std::uint64_t block,
           const RankedChanges& ranked);
  /// Whether such strips can be made of what was added: of a block that was not, members are not known, unless it
  /// `has_none`, so that no changes may come behind it in a strip; and a strip has no more changes than a batch may
  /// have.
  bool can_make(const Strips& strips, bool has_none) const;
  /// Makes symbols of all that was added.
  void make(const CodingKernels& coding, ElementType type, const Strips& strips);
  /// Gives symbols other signs: of each change that was added, in turn, 0 or 1. signs() stay as they were.
  void take_signs(const KernelTable& kernels, std::span<const std::uint8_t> signs);

  bool has_signs() const { return has_signs_; }
  const SignRows& signs() const { return signs_; }
  const std::array<ClassSymbolCounts, k_most_classes>& counts() const { return counts_; }
  /// Those with changes.
  std::span<const StripSymbols> strips() const { return strips_; }
  /// One symbol for each change of the strip, those of the first class first; behind them those of the next strip.
  const std::uint8_t* gaps_of(const StripSymbols& strip) const { return gap_symbols_.data() + strip.first_change; }
  const std::uint8_t* steps_of(const StripSymbols& strip) const { return step_symbols_.data() + strip.first_change; }
  /// Zeros fill the last byte.
  std::span<const std::uint8_t> raw_of(const StripSymbols& strip) const {
    return raw_.span().subspan(strip.raw_begin, (strip.raw_bits + 7) / 8);
  }

 private:
  /// Where the changes of one block are.
  struct Block {
    std::uint64_t number;  ///< in the group
    ClassCounts counts{};
    std::array<std::uint32_t, k_most_classes> rank_ends{};  ///< one more than the last rank of each class
    std::array<std::uint32_t, k_most_classes> members{};
    std::size_t first_change = 0;
    std::size_t change_count = 0;
  };
  /// The first blocks of those that are left, as many as lie in one strip.
  static std::span<const Block> strip_of(std::span<const Block> blocks, const Strips& strips);
  void gather(std::span<const Block> strip, std::uint8_t width_bytes, ClassCounts& counts);
  void append_symbols(const CodingKernels& coding, ElementType type, StripSymbols& strip);

  // Of one block.
  std::unique_ptr<std::uint16_t[]> ranks_;
  std::unique_ptr<std::uint8_t[]> change_classes_;
  // Of the group, block by block, class by class.
  bool has_signs_ = false;
  std::uint32_t class_count_ = 0;
  std::vector<Block> blocks_;
  ScratchVector<std::uint16_t> gaps_;
  ScratchVector<std::uint8_t> steps_;
  // Of one strip, class by class.
  std::unique_ptr<std::uint32_t[]> strip_gaps_;
  std::unique_ptr<std::uint8_t[]> strip_steps_;
  // Of the group, strip by strip.
  std::vector<StripSymbols> strips_;
  ScratchVector<std::uint8_t> gap_symbols_;
  ScratchVector<std::uint8_t> step_symbols_;
  SignRows signs_;
  ScratchVector<std::uint8_t> classes_;            // of the changes in signs_
  std::unique_ptr<std::uint8_t[]> ordered_signs_;  // of one strip
  ScratchVector<std::uint8_t> raw_;
  std::array<ClassSymbolCounts, k_most_classes> counts_;
};

}  // namespace wdelta
