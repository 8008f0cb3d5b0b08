// SPDX-License-Identifier: Apache-2.0
// Consecutive blocks of one tensor, coded together: wdelta-delta.5, "Groups". They share the parameters of the coder;
// each block can still be decoded alone.
#pragma once

#include "engine/block.hpp"
#include "engine/group_tables.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

struct CodedGroup {
  struct Block {
    std::size_t size_bytes;
    BlockSummary summary;
  };
  std::vector<std::uint8_t> parameters;  ///< empty when no block needs any
  std::vector<std::uint8_t> bytes;       ///< the coded blocks, one behind the other
  std::vector<Block> blocks;

  void clear();
};

/// Codes groups one after the other, each block as it comes; owns scratch memory, so one per thread. The bytes depend
/// on the input and the choice alone, not on the engine.
class GroupEncoder {
 public:
  explicit GroupEncoder(const Engine& engine, BlockChoice choice = BlockChoice::automatic);
  ~GroupEncoder();
  GroupEncoder(GroupEncoder&&) noexcept;

  /// Begins a group of blocks with so many elements together, the first of which lies at `place`.
  void begin(ElementType type, const MatrixPlace& place, std::uint64_t element_count);
  /// The next block: see BlockEncoder::encode(). All but the last are whole. Nothing is kept of the spans.
  void add(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next);
  /// Ends the group and replaces `group`.
  void finish(CodedGroup& group);

 private:
  struct Scratch;
  BlockEncoder blocks_;
  const Engine* engine_;
  BlockChoice choice_;
  std::unique_ptr<Scratch> scratch_;
};

/// The parameters of a group, ready to decode its blocks. Immutable: threads may share one.
class GroupTables {
 public:
  /// Throws Error(corrupt) with an empty object.
  GroupTables(std::span<const std::uint8_t> parameters, const GroupShape& shape);

  const GroupParameters& parameters() const { return parameters_; }
  const GroupShape& shape() const { return shape_; }
  /// As CodingKernels::decode_symbols() wants them.
  const DecodeTable* decode_tables() const { return decode_tables_.get(); }

 private:
  GroupShape shape_;
  GroupParameters parameters_;
  std::unique_ptr<DecodeTable[]> decode_tables_;
};

}  // namespace wdelta
