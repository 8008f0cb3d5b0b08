// SPDX-License-Identifier: Apache-2.0
// Decodes batches of classed strips (wdelta-delta.5, "Classed blocks"); the encoder is ClassedEncoder.
#pragma once

#include "base/buffer.hpp"
#include "engine/engine.hpp"
#include "engine/group.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// The symbols of a batch, change by change, strip after strip in the order of their classes.
struct ClassedSymbols {
  std::span<const std::uint8_t> classes;
  std::span<const std::uint8_t> gaps;   ///< buckets
  std::span<const std::uint8_t> steps;  ///< twice the bucket, and the sign
};

/// What a batch says, decoded as far as that needs no base. Keeps its memory from batch to batch.
class DecodedBatch {
 public:
  /// Of the strip with that number in the group, which is classed and in the batch; they stay until the next is
  /// decoded. What is not about changes belongs to the group; flips and progress are null.
  const ClassedChanges& changes_of(std::uint64_t strip) const { return changes_[strip - first_strip_]; }
  /// What one with so many changes of elements so wide takes.
  static std::size_t size_bytes(std::size_t changes, std::size_t width_bytes) {
    return rank_bytes(changes) + (changes + k_slack_changes) * width_bytes;
  }

 private:
  friend class ClassedDecoder;
  static constexpr std::size_t k_slack_changes = 64;  // kernels write behind the last
  static std::size_t rank_bytes(std::size_t changes) {
    return (((changes + k_slack_changes) * sizeof(std::uint32_t)) + 63) / 64 * 64;
  }
  void begin(const IndexRange& strips, std::size_t changes, std::size_t width_bytes);

  std::uint64_t first_strip_ = 0;
  std::vector<ClassedChanges> changes_;  // of each strip
  Buffer memory_;
  std::uint32_t* ranks_ = nullptr;
  std::uint8_t* moves_ = nullptr;
};

/// A batch to be decoded: these strips of the group.
struct CodedBatch {
  const GroupTables* group;
  IndexRange strips;
  std::span<const std::uint8_t> bytes;
  DecodedBatch* decoded;
};

/// Memory for the flips (ClassedChanges) of blocks.
class FlipRoom {
 public:
  explicit FlipRoom(std::size_t blocks) : words_(std::make_unique_for_overwrite<std::uint64_t[]>(blocks * k_words)) {}

  /// Those of elements of the group, at most a block, in the place with number `at`; null where the group turns no
  /// signs round.
  const std::uint64_t* expand(std::size_t at, const GroupTables& group, const ElementRange& elements);

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

  /// How many batches are decoded side by side, where there are so many: one goes on where another waits.
  static constexpr std::size_t k_at_once = k_most_decoded_at_once;

  /// The symbols alone; they are kept until the next call. Throws as decode() does.
  ClassedSymbols symbols(const Engine& engine, const GroupTables& group, const IndexRange& strips,
                         std::span<const std::uint8_t> coded);

  /// Decodes batches. Throws Error(corrupt) with an empty object when any of them is none in the format; whatever the
  /// bytes, nothing is read outside them.
  void decode(const Engine& engine, std::span<const CodedBatch> batches);

 private:
  template <class T>
  static std::unique_ptr<T[]> room(std::size_t count) {
    return std::make_unique_for_overwrite<T[]>(count);
  }
  /// Of one batch; changes in their order there.
  struct Symbols {
    std::unique_ptr<std::uint8_t[]> classes = room<std::uint8_t>(k_most_batch_changes + 64);
    std::unique_ptr<std::uint8_t[]> gaps = room<std::uint8_t>(k_most_batch_changes + 64);
    std::unique_ptr<std::uint8_t[]> steps = room<std::uint8_t>(k_most_batch_changes + 64);
    std::uint32_t count = 0;
  };
  static void list_classes(const GroupParameters& parameters, const IndexRange& strips, Symbols& symbols);
  static CodedPairs read_states(const GroupTables& group, std::span<const std::uint8_t> coded, const Symbols& symbols);
  void decode_symbols(const Engine& engine, std::span<const CodedBatch> lot);
  void take_raw_bits(const CodedPairs& decoded, std::uint32_t changes);
  void join_raw_bits(const Engine& engine, const CodedBatch& batch, const Symbols& symbols);
  void require_raw_bits(std::uint64_t raw_bits, std::uint32_t changes) const;

  std::array<Symbols, k_at_once> symbols_;
  std::array<CodedPairs, k_at_once> coded_;
  // All that any symbols could ask for, and what is looked at behind it; whether they may is told afterwards.
  static constexpr std::size_t k_most_raw_bytes = std::size_t{k_most_raw_bits} * k_most_batch_changes / 8 + 16;
  std::unique_ptr<std::uint8_t[]> raw_ = std::make_unique<std::uint8_t[]>(k_most_raw_bytes + 64);
  std::size_t raw_bytes_ = 0;
};

}  // namespace wdelta
