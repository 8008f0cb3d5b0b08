// SPDX-License-Identifier: Apache-2.0
// Consecutive blocks of one tensor: wdelta-delta.5, "Groups". They share the parameters of the coder; each batch of
// their strips can still be decoded alone, and each strip patched alone.
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
  std::vector<std::uint8_t> parameters;  ///< empty when no block needs any
  std::vector<BlockSummary> blocks;
  std::uint32_t blocks_in_strip = 1;     ///< strips.hpp
  std::uint32_t strips_in_batch = 1;     ///< that are coded together; of the last batch fewer may be left
  std::vector<std::size_t> batch_bytes;  ///< the size of each; 0 where nothing changed
  std::vector<std::uint8_t> bytes;       ///< the coded batches, one behind the other

  void clear();
};

/// A block that was compared elsewhere, on a device. Steps and contexts (class_map.hpp), of the elements of base that
/// change, are one for each position.
struct ComparedBlock {
  std::uint32_t element_count;
  std::span<const std::uint16_t> positions;
  const void* steps;
  const std::uint8_t* contexts;
};

/// Its bytes. They are asked for where changes do not say enough: of the first blocks of a group, and where most of a
/// block changes.
class BlockBytes {
 public:
  virtual ~BlockBytes() = default;
  virtual std::span<const std::uint8_t> base() = 0;
  virtual std::span<const std::uint8_t> next() = 0;
};

struct RankedChanges;  // change_symbols.hpp

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

  /// Whether blocks of such elements can be added as ComparedBlock.
  bool takes_compared(ElementType type) const;
  /// The next block of a group all of which is added so; nothing is kept of it. Once there are all, bounds() says the
  /// classes, and add_ranks(), for each block in turn, where its changes lie in these.
  void add(const ComparedBlock& compared, BlockBytes& bytes);
  /// Null where nobody asks for ranks.
  const ClassBounds* bounds();
  void add_ranks(std::size_t block, const RankedChanges& ranked);

  /// Ends the group and replaces `group`.
  void finish(CodedGroup& group);

 private:
  struct Scratch;
  template <class Bytes>
  BlockSummary code_alone(Bytes& bytes);
  template <class Bytes>
  bool is_told_from_zeros(std::uint32_t element_count, Bytes& bytes);
  template <class Bytes, class Keep>
  void weigh(const ComparedBlock& compared, Bytes& bytes, Keep keep);

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
