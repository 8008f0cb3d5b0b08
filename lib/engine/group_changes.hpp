// SPDX-License-Identifier: Apache-2.0
// What changes in a group, block by block, and once that is known how it is coded: in which classes, strips and
// batches, with which sign mask, and like which group before it.
#pragma once

#include "engine/change_symbols.hpp"
#include "engine/group.hpp"
#include "engine/held_blocks.hpp"
#include "engine/kept_rows.hpp"
#include "engine/known_groups.hpp"
#include "engine/sign_mask_chooser.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// Keeps its memory from group to group.
class GroupChanges {
 public:
  /// GroupEncoder::begin_run().
  void begin_run() {
    known_.begin_run();
    sign_mask_chooser_.forget();
  }
  /// Forgets the group before.
  void begin(ElementType type, const MatrixPlace& place, ExpectedElements expected);

  /// The next block, of so many elements.
  void begin_block(std::uint32_t element_count);
  /// The newest block has changes: how many, then what they are.
  void count(std::size_t changes) { change_count_ += changes; }
  /// Before there are classes; the block may be the one with which they are chosen.
  void look_at(const Engine& engine, const FoundChanges& changes);
  /// The changes of a block by its number, blocks in order: as they were found or, where takes_ranks(), with the rank
  /// of each in its class.
  void add(const Engine& engine, std::size_t block, const FoundChanges& changes);
  void add(const Engine& engine, std::size_t block, const RankedChanges& ranked);
  /// If they were not chosen yet. Some block has changes, and all were added.
  void choose_classes(const Engine& engine) { choose_classes(engine, nullptr); }

  std::size_t change_count() const { return change_count_; }
  /// Whether there are enough for what its parameters take to be little.
  bool has_enough() const { return change_count_ >= k_enough_changes; }
  bool has_classes() const { return bounds_.has_value(); }
  /// Whether there are classes, and ranks among all elements of a block are what is needed: rows are not skipped.
  bool takes_ranks() const { return has_classes() && !skips_rows_; }
  const ClassBounds& bounds() const { return *bounds_; }
  /// Of elements of one byte, once there are classes: steps go so far that all that there are have a code in a sparse
  /// block.
  bool has_far_steps() const { return has_far_steps_; }

  /// `are_apart`: some blocks may be coded alone, and none shares a strip or a batch with others.
  Strips choose_strips(bool are_apart) const;
  /// Makes symbols() of all changes.
  GroupParameters fit_parameters(const Engine& engine, const Strips& strips);
  const ChangeSymbols& symbols() const { return symbols_; }
  /// What the parameters refer to, or null.
  const GroupReference* reference() const { return like_ != nullptr ? &like_->reference : nullptr; }
  /// Returns how many strips make a batch; of how many with changes each is that has some, batches() says then.
  std::uint32_t choose_batches(const Strips& strips, bool are_apart);
  std::span<const std::size_t> batches() const { return batches_; }
  /// The group has parameters, these, of so many bytes: others can refer to it unless it refers to one itself. Returns
  /// what CodedGroup::reference says of it.
  std::size_t enter(const GroupParameters& parameters, std::size_t parameters_bytes);

 private:
  // What a group's parameters take is little then, and further on in a tensor they may fit less.
  static constexpr std::size_t k_enough_changes = 65536;

  std::uint64_t expected_elements() const;
  std::optional<ClassChooser::Choice> cheapest_known() const;
  // `newest`: the changes of the newest block, where these are not added yet.
  void choose_classes(const Engine& engine, const FoundChanges* newest);
  void take_classes(const Engine& engine, ClassBounds bounds, const FoundChanges* newest);
  bool should_skip_rows(const FoundChanges* newest);
  std::size_t list_batches(std::size_t strips_in_batch);

  ElementType type_;
  MatrixPlace place_;
  ExpectedElements expected_{};
  std::size_t block_count_ = 0;
  std::uint64_t element_count_ = 0;
  std::size_t change_count_ = 0;
  bool has_far_steps_ = false;
  ClassChooser chooser_;
  std::optional<ClassBounds> bounds_;
  HeldBlocks held_;
  bool skips_rows_ = false;
  KeptRows kept_rows_;
  ChangeSymbols symbols_;
  SignMaskChooser sign_mask_chooser_;
  std::vector<std::size_t> batches_;
  KnownGroups known_;                         // of the run
  const KnownGroups::Group* like_ = nullptr;  // what the parameters refer to
};

}  // namespace wdelta
