// SPDX-License-Identifier: Apache-2.0
// Codes classed blocks (wdelta-delta.5, "Classed blocks"); the decoder is ClassedDecoder.
#pragma once

#include "engine/change_symbols.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// Owns scratch memory; one per thread.
class ClassedEncoder {
 public:
  ClassedEncoder();

  /// How the classes of the group's blocks are coded.
  void begin(std::span<const ClassCoding> classes);
  /// Appends a block with at least one change.
  void append(const CodingKernels& coding, const ChangeSymbols& symbols, const BlockSymbols& block,
              std::vector<std::uint8_t>& coded);

 private:
  std::vector<EncodeEntry> entries_;
  std::unique_ptr<std::uint16_t[]> words_;  // of one block
};

}  // namespace wdelta
