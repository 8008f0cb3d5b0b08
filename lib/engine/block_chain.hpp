// SPDX-License-Identifier: Apache-2.0
// A few blocks on their way through a chain of deltas: what deltas say is decoded before, as far as that needs no
// elements (classed_decoder.hpp); then each block goes through all of them.
#pragma once

#include "engine/block.hpp"
#include "engine/class_chain.hpp"
#include "engine/classed_decoder.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace wdelta {

/// Owns scratch memory; one per thread.
class BlockChain {
 public:
  explicit BlockChain(const Engine& engine);

  /// Forgets what was added; the next blocks have elements of this type.
  void begin(ElementType type);

  struct Place {
    std::size_t block;  ///< of those that are taken through together, counted from 0
    std::size_t delta;  ///< what at() calls it
  };
  /// The next delta of a block: what BlockDecoder::apply() takes, which must stay where it is until the next begin().
  void add(const Place& place, std::span<const std::uint8_t> coded);
  /// The same where the block is classed, number `in_group` of the group, with the changes of its strip; flips are
  /// expanded when they are needed.
  void add(const Place& place, const GroupTables& group, std::uint64_t in_group, const ClassedChanges& changes);

  /// Turns elements of a block into what its deltas make of them, in the order in which they were added. The blocks of
  /// a strip are taken through one after the other, from the first on, and others only before or behind them all;
  /// begin() may come between. Throws as BlockDecoder::apply() does; at() is the delta then.
  void apply(std::size_t block, std::span<std::uint8_t> elements);
  std::size_t at() const { return at_; }

 private:
  struct Step {
    std::size_t delta;
    std::span<const std::uint8_t> coded;
    // Where it is classed.
    const GroupTables* group = nullptr;
    std::uint64_t in_group = 0;
    ClassedChanges changes{};

    bool is_in_classes() const { return group != nullptr; }
    bool skips_rows() const { return is_in_classes() && group->skips_rows(); }
  };
  void add(std::size_t block, const Step& step);
  void go_on_with_strip(const Step& step, ClassedChanges& changes);
  void apply_classed(std::span<const Step> steps, std::span<std::uint8_t> elements);
  void apply_to_kept_rows(const Step& step, std::span<std::uint8_t> elements);

  const Engine* engine_;
  BlockDecoder decoder_;  // of other modes
  ClassChain chain_;
  FlipRoom flips_{k_most_chained};
  std::vector<ClassedChanges> together_;

  ElementType type_{};
  std::vector<std::vector<Step>> steps_;  // by block
  struct Strip {
    std::uint64_t next = 0;  // block of the group; 0: none
    StripProgress progress{};
  };
  std::deque<Strip> strips_;  // that each delta is in, by at(); they stay where they are when there are more
  std::size_t at_ = 0;
};

}  // namespace wdelta
