// SPDX-License-Identifier: Apache-2.0
// One block, coded: wdelta-delta.5, "Blocks". Encoder and decoder side by side.
#pragma once

#include "engine/element.hpp"
#include "engine/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// How a coded block says what changed; the low four bits of its first byte, but for classed ones.
enum class BlockMode : std::uint8_t {
  same = 0,     ///< nothing changed: the coded block is empty (never written as a byte)
  sparse = 1,   ///< positions as gaps, and steps
  dense = 2,    ///< the step of every element, in byte planes
  whole = 3,    ///< the new elements as they are
  classed = 4,  ///< positions and steps coded by what the base says of each element; its group's tables say that it is
  afresh = 5,   ///< the new elements, in planes, each compressed where that pays
};
inline constexpr std::size_t k_block_modes = 6;
/// Of a coded block that is not empty, and not classed.
inline BlockMode mode_of(std::span<const std::uint8_t> coded) { return static_cast<BlockMode>(coded.front() & 0x0f); }
/// Set in the first byte of a sparse, dense or whole block whose content is no frame.
inline constexpr std::uint8_t k_stored = 0x10;
/// Whether every element is all zero bits, as those are that a tensor without a source starts from.
bool is_all_zeros(std::span<const std::uint8_t> elements);

/// automatic: whichever is smallest. unknown_bytes: that, or the elements as they are behind zstd's search for repeats,
/// which finds some in text and tables but never in weights.
enum class BlockChoice { automatic, sparse, dense, whole, classed, afresh, unknown_bytes };

class AfreshDecoder;

struct BlockSummary {
  BlockMode mode = BlockMode::same;
  std::uint32_t changes = 0;
  std::uint64_t largest_step = 0;  ///< magnitude of the largest signed step, in units of neighbouring numbers
};

/// Codes blocks one after the other; owns scratch memory, so one per thread. The bytes depend on the input and the
/// choice alone, not on the engine.
class BlockEncoder {
 public:
  explicit BlockEncoder(const Engine& engine, BlockChoice choice = BlockChoice::automatic);
  ~BlockEncoder();
  BlockEncoder(BlockEncoder&&) noexcept;

  /// Appends the coded block to `coded` (nothing when no element changed). `base` and `next` are the same length, a
  /// multiple of the width, at most k_block_elements elements.
  BlockSummary encode(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next, ElementType type,
                      std::vector<std::uint8_t>& coded);
  /// Only looks: counts changes and finds the largest step.
  BlockSummary compare(std::span<const std::uint8_t> base, std::span<const std::uint8_t> next, ElementType type);

 private:
  struct Scratch;
  const Engine* engine_;
  BlockChoice choice_;
  std::unique_ptr<Scratch> scratch_;
};

/// Applies coded blocks in place, but for classed ones (block_chain.hpp); one per thread.
class BlockDecoder {
 public:
  explicit BlockDecoder(const Engine& engine);
  ~BlockDecoder();
  BlockDecoder(BlockDecoder&&) noexcept;

  /// Turns `elements` (a block of the base) into the block of the result. An empty `coded` changes nothing. Throws
  /// Error(corrupt) with an empty object, leaving `elements` unspecified, when `coded` is not a block in the format;
  /// reads and writes nothing outside the two spans, whatever the bytes. The caller adds which tensor and block.
  void apply(std::span<const std::uint8_t> coded, ElementType type, std::span<std::uint8_t> elements);

 private:
  struct Scratch;
  const Engine* engine_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<AfreshDecoder> afresh_;  // made when first needed
};

}  // namespace wdelta
