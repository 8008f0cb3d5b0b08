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
  std::uint32_t blocks_in_strip = 1;  ///< strips.hpp
  std::uint32_t strips_in_batch = 1;  ///< that are coded together; of the last batch fewer may be left
  /// The group that its parameters refer to, counted backwards among those that have parameters and refer to none: 1 is
  /// the last of them. 0: none.
  std::size_t reference = 0;
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

/// How many elements a group is going to have: it ends when it has enough changes (GroupEncoder::has_enough()), but not
/// before so many.
struct ExpectedElements {
  std::uint64_t least;
  std::uint64_t most;
  std::uint64_t of_run = 0;  ///< it and those behind it, in their run

  static ExpectedElements exactly(std::uint64_t count) { return {count, count}; }
};

/// Codes groups one after the other, each block as it comes; owns scratch memory, so one per thread. The bytes depend
/// on the input and the choice alone, not on the engine.
class GroupEncoder {
 public:
  explicit GroupEncoder(const Engine& engine, BlockChoice choice = BlockChoice::automatic);
  ~GroupEncoder();
  GroupEncoder(GroupEncoder&&) noexcept;

  /// Groups from here on may refer to each other: whoever decodes them has to have those between in the same order.
  /// Before the first run none refers to any. How a group is coded depends on those before it in its run, on none
  /// before the run.
  void begin_run();
  /// Begins a group of blocks, the first element of which lies at `place`. What is expected matters for size alone.
  void begin(ElementType type, const MatrixPlace& place, ExpectedElements expected);
  /// The next block: see BlockEncoder::encode(). All but the last are whole. Nothing is kept of the spans.
  void add(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next);
  /// So many were added.
  std::size_t block_count() const;
  /// Whether it has changes enough to be worth its parameters, or a block that may be smaller without these.
  bool has_enough() const;

  /// Whether blocks of such elements can be added as ComparedBlock.
  bool takes_compared(ElementType type) const;
  /// The next block; nothing is kept of it.
  void add(const ComparedBlock& compared, BlockBytes& bytes);
  /// Whether the group has to be told where the changes of this block lie in its classes: of those that were added as
  /// ComparedBlock when these had been chosen.
  bool wants_ranks(std::size_t block) const;
  /// The classes, once some block wants ranks.
  const ClassBounds& bounds() const;
  /// For each block that wants them, in turn, and before any other is added.
  void add_ranks(std::size_t block, const RankedChanges& ranked);

  /// Ends the group and replaces `group`.
  void finish(CodedGroup& group);

 private:
  struct Scratch;
  template <class Bytes>
  BlockSummary code_alone(Bytes& bytes);
  template <class Bytes>
  bool is_told_from_zeros(std::uint32_t element_count, Bytes& bytes);
  template <class Bytes>
  void weigh(const ComparedBlock& compared, Bytes& bytes);

  BlockEncoder blocks_;
  const Engine* engine_;
  BlockChoice choice_;
  std::unique_ptr<Scratch> scratch_;
};

/// The parameters of a group, ready to decode its blocks. Immutable: threads may share one.
class GroupTables {
 public:
  /// `reference`: what the group refers to, or null. Throws Error(corrupt) with an empty object.
  GroupTables(std::span<const std::uint8_t> parameters, const GroupShape& shape,
              const GroupReference* reference = nullptr);

  const GroupParameters& parameters() const { return parameters_; }
  const GroupShape& shape() const { return shape_; }
  bool skips_rows() const { return !parameters_.skipped.is_empty(); }
  /// Where it does, what is left of a block.
  std::span<const ElementRange> kept_in(std::uint64_t block) const { return kept_in_block(kept_, block); }
  /// As CodingKernels::decode_symbols() wants them.
  const DecodeTable* decode_tables() const { return decode_tables_.get(); }

 private:
  GroupShape shape_;
  GroupParameters parameters_;
  std::vector<ElementRange> kept_;
  std::unique_ptr<DecodeTable[]> decode_tables_;
};

}  // namespace wdelta
