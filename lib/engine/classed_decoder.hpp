// SPDX-License-Identifier: Apache-2.0
// Decodes classed blocks (wdelta-delta.5, "Classed blocks"); the encoder is GroupEncoder.
#pragma once

#include "engine/change_room.hpp"
#include "engine/engine.hpp"
#include "engine/group.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace wdelta {

/// The symbols of a block, change by change in the order of their classes.
struct ClassedSymbols {
  std::span<const std::uint8_t> classes;
  std::span<const std::uint8_t> gaps;   ///< buckets
  std::span<const std::uint8_t> steps;  ///< twice the bucket, and the sign
};

/// Memory for the flips (ClassedChanges) of blocks.
class FlipRoom {
 public:
  explicit FlipRoom(std::size_t blocks) : words_(std::make_unique_for_overwrite<std::uint64_t[]>(blocks * k_words)) {}

  /// Those of block `in_group` of the group, in the place with number `at`; null where the group turns no signs round.
  const std::uint64_t* expand(std::size_t at, const GroupTables& group, std::uint64_t in_group,
                              std::uint32_t element_count);

 private:
  static constexpr std::size_t k_words = k_block_elements / 64;
  std::unique_ptr<std::uint64_t[]> words_;
};

/// Says that ClassedKernels::apply() was false.
[[noreturn]] void refuse_changes();

/// Owns scratch memory; one per thread.
class ClassedDecoder {
 public:
  ClassedDecoder();

  /// The symbols alone, which need no base; they are kept until the next call. Arguments as for apply().
  ClassedSymbols symbols(const Engine& engine, const GroupTables& group, std::uint64_t block,
                         std::span<const std::uint8_t> coded);

  /// Ranks and moves, which need no base either; they lie in `room`. The rest belongs to the group, and flips are null.
  ClassedChanges changes(const Engine& engine, const GroupTables& group, std::uint64_t block,
                         std::span<const std::uint8_t> coded, std::uint32_t element_count, ChangeRoom& room);

  /// `coded` is the block with number `block` of the group. See BlockDecoder::apply().
  void apply(const Engine& engine, const GroupTables& group, std::uint64_t block, std::span<const std::uint8_t> coded,
             std::span<std::uint8_t> elements);

 private:
  void decode_symbols(const Engine& engine, const GroupTables& group, std::uint32_t changes,
                      std::span<const std::uint8_t> coded);
  void read_raw_bits(const ClassedKernels& kernels, const ClassCounts& counts, std::uint32_t changes,
                     std::uint32_t element_count, const ChangeRoom::Part& part);

  template <class T>
  static std::unique_ptr<T[]> room(std::size_t count) {
    return std::make_unique_for_overwrite<T[]>(count);
  }
  // Of one block; changes in the order of their classes.
  std::unique_ptr<std::uint8_t[]> change_classes_ = room<std::uint8_t>(k_block_elements + 64);
  std::unique_ptr<std::uint8_t[]> gap_symbols_ = room<std::uint8_t>(k_block_elements + 64);
  std::unique_ptr<std::uint8_t[]> step_symbols_ = room<std::uint8_t>(k_block_elements + 64);
  // All that any symbols could ask for, and what is looked at behind it; whether they may is told afterwards.
  static constexpr std::size_t k_most_raw_bytes = std::size_t{44} * k_block_elements / 8 + 16;
  std::unique_ptr<std::uint8_t[]> raw_ = std::make_unique<std::uint8_t[]>(k_most_raw_bytes + 64);
  std::size_t raw_bytes_ = 0;
  ChangeRoom room_;
  FlipRoom flips_{1};
};

}  // namespace wdelta
