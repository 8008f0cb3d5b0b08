// SPDX-License-Identifier: Apache-2.0
// Codes classed blocks (wdelta-delta.5, "Classed blocks"); the decoder is ClassedDecoder.
#pragma once

#include "engine/block.hpp"
#include "engine/change_symbols.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// Owns scratch memory; one per thread.
class ClassedEncoder {
 public:
  ClassedEncoder();

  /// How the classes of the group's blocks are coded, and all their symbols, which stay as they are until the last
  /// block is appended.
  void begin(std::span<const ClassCoding> classes, const ChangeSymbols& symbols);
  /// Appends the next of the blocks that have changes.
  void append_next(const CodingKernels& coding, std::vector<std::uint8_t>& coded);

 private:
  void code_some(const CodingKernels& coding);
  std::uint16_t* words_end(std::size_t i) const { return words_.get() + (i + 1) * k_word_room; }

  static constexpr std::size_t k_word_room = 2 * k_block_elements + 8;
  std::vector<EncodeEntry> entries_;
  const ChangeSymbols* symbols_ = nullptr;
  std::size_t appended_ = 0;  // blocks
  // Of blocks that were coded side by side.
  std::unique_ptr<std::uint16_t[]> words_;
  std::array<SymbolStream, k_most_streams> streams_;
  std::array<std::span<const std::uint8_t>, k_most_streams> raw_;  // what is not in the states
};

}  // namespace wdelta
