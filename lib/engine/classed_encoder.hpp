// SPDX-License-Identifier: Apache-2.0
// Codes batches of classed strips (wdelta-delta.5, "Classed blocks"); the decoder is ClassedDecoder.
#pragma once

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

  /// How the classes of the group's strips are coded, and all their symbols, and the batches: how many of the strips
  /// with changes each has, one at least, with k_most_batch_changes together at most. All stay as they are until the
  /// last batch is appended.
  void begin(std::span<const ClassCoding> classes, const ChangeSymbols& symbols, std::span<const std::size_t> batches);
  /// Appends the next batch.
  void append_next(const CodingKernels& coding, std::vector<std::uint8_t>& coded);

 private:
  /// A batch between its symbols and its bytes.
  struct Batch {
    std::vector<ClassCounts> counts;
    std::vector<std::uint8_t> raw;
    std::size_t raw_in_states = 0;
  };
  void code_some(const CodingKernels& coding);
  void begin_stream(std::span<const StripSymbols> strips, Batch& batch, SymbolStream& stream) const;
  std::uint16_t* words_end(std::size_t i) const { return words_.get() + (i + 1) * k_word_room; }

  static constexpr std::size_t k_word_room = 2 * k_most_batch_changes + 8;
  std::vector<EncodeEntry> entries_;
  const ChangeSymbols* symbols_ = nullptr;
  std::span<const std::size_t> batches_;
  std::size_t appended_ = 0;     // batches
  std::size_t first_strip_ = 0;  // of those not coded yet
  // Of batches that were coded side by side.
  std::unique_ptr<std::uint16_t[]> words_;
  std::array<SymbolStream, k_most_streams> streams_;
  std::array<Batch, k_most_streams> coded_;
};

}  // namespace wdelta
