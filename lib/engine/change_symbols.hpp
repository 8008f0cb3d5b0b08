// SPDX-License-Identifier: Apache-2.0
// The changes of a group's blocks, taken apart into symbols and raw bits, class by class, before it is known how these
// are coded (wdelta-delta.5, "Classed blocks").
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
};

/// Where the symbols of one block are.
struct BlockSymbols {
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

  /// Forgets the group before. Where its elements are a matrix with rows, signs are kept in these too.
  void begin(const MatrixPlace& place);
  /// Appends the changes of one block, which begins with this element of the group; blocks come in order.
  BlockSymbols add(const Engine& engine, ElementType type, const ClassBounds& bounds, std::uint32_t first_element,
                   const FoundChanges& found);
  /// The same where ranks and classes, of so many, are known already.
  BlockSymbols add(const CodingKernels& coding, ElementType type, std::uint32_t class_count,
                   std::uint32_t first_element, const RankedChanges& ranked);
  /// Flips signs of symbols as the mask says. signs() stay as they were.
  void flip_signs(const CodingKernels& coding, const SignMask& mask);

  bool has_signs() const { return has_signs_; }
  const SignRows& signs() const { return signs_; }
  const std::array<ClassSymbolCounts, k_most_classes>& counts() const { return counts_; }
  /// Those with changes.
  std::span<const BlockSymbols> blocks() const { return blocks_; }
  /// One symbol for each change of the block, those of the first class first; behind them those of the next block.
  const std::uint8_t* gaps_of(const BlockSymbols& block) const { return gap_symbols_.data() + block.first_change; }
  const std::uint8_t* steps_of(const BlockSymbols& block) const { return step_symbols_.data() + block.first_change; }
  /// Zeros fill the last byte.
  std::span<const std::uint8_t> raw_of(const BlockSymbols& block) const {
    return raw_.span().subspan(block.raw_begin, (block.raw_bits + 7) / 8);
  }

 private:
  void append_symbols(const CodingKernels& coding, ElementType type, BlockSymbols& block);

  // Of one block.
  std::unique_ptr<std::uint16_t[]> ranks_;
  std::unique_ptr<std::uint8_t[]> change_classes_;
  // Class by class.
  std::unique_ptr<std::uint16_t[]> gaps_;
  std::unique_ptr<std::byte[]> ordered_steps_;
  // Of the group.
  bool has_signs_ = false;
  std::uint32_t class_count_ = 0;
  std::vector<BlockSymbols> blocks_;
  ScratchVector<std::uint8_t> gap_symbols_;
  ScratchVector<std::uint8_t> step_symbols_;
  SignRows signs_;
  ScratchVector<std::uint8_t> classes_;            // of the changes in signs_
  ScratchVector<std::uint8_t> flips_;              // likewise
  std::unique_ptr<std::uint8_t[]> ordered_flips_;  // of one block
  ScratchVector<std::uint8_t> raw_;
  std::array<ClassSymbolCounts, k_most_classes> counts_;
};

}  // namespace wdelta
