// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/group_references.hpp"
#include "delta/tensor_plan.hpp"
#include "engine/classed_decoder.hpp"
#include "engine/group.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace wdelta {

/// A batch that is asked for.
struct WantedBatch {
  CodedBatch batch;
  std::size_t step;     ///< as whoever asks for it numbers them
  std::uint64_t block;  ///< for which it was asked
  bool is_ahead;        ///< or whether it was not, and only costs less now than later
};

/// What all steps of a thread decode batches with: batches that nobody needs any more leave their memory to the next.
struct BatchDecoder {
  explicit BatchDecoder(const Engine& with) : engine(&with) {}

  /// Decodes them and returns true. Where any is wrong: calls refuse(error, batch), which throws, for the first that is
  /// wrong and not ahead; where there is none, decodes what is not ahead and returns false.
  template <class Refuse>
  bool decode(std::span<const WantedBatch> wanted, Refuse refuse);

  const Engine* engine;
  ClassedDecoder decoder;
  std::vector<std::unique_ptr<DecodedBatch>> idle;
  std::vector<CodedBatch> together;
};

template <class Refuse>
bool BatchDecoder::decode(std::span<const WantedBatch> wanted, Refuse refuse) {
  together.clear();
  for (const WantedBatch& one : wanted) together.push_back(one.batch);
  try {
    decoder.decode(*engine, together);
    return true;
  } catch (const Error&) {
    for (const WantedBatch& one : wanted) {
      if (one.is_ahead) continue;
      try {
        decoder.decode(*engine, {&one.batch, 1});
      } catch (const Error& error) {
        refuse(error, one);
      }
    }
    return false;
  }
}

/// What one step of a tensor's plan says of its blocks, which are asked for one after the other: of the groups that
/// they are in it keeps the tables, and batches decoded until all their blocks were there. One per thread and step.
class StepBlocks {
 public:
  /// `batches` must outlive it.
  explicit StepBlocks(BatchDecoder& batches) : with_(&batches) {}

  /// The next blocks to be asked for: of this step and tensor, from number `first` up to but not including `end`.
  /// Whatever was given out before is void, and what is about blocks before them is forgotten.
  void begin(const TensorPlan::Step& step, const Tensor& tensor, std::uint64_t first, std::uint64_t end);
  /// Forgets batches that end before that block, and nothing else.
  void forget_batches_before(std::uint64_t block);

  // Batches cost less where several are decoded together, of this step or of others: who is to ask for blocks may say
  // so before. What is wanted has to be decoded then, before anything else is asked for.

  /// Wants the batch of a block that is in a classed strip, unless it is there.
  void want(std::uint64_t block);
  /// Wants one more, which is ahead: the next of the group, behind the last that is wanted. Returns false where there
  /// is none, or it would take more than `most_bytes`.
  bool want_next(std::size_t most_bytes);
  std::size_t wanted_count() const;
  /// Adds those that are wanted, as those of this step. Their bytes stay until the next begin().
  void list_wanted(std::size_t step, std::vector<WantedBatch>& wanted);
  /// They are decoded; those ahead only if `with_those_ahead`.
  void keep_wanted(bool with_those_ahead);

  enum class Coding { same, alone, classed };
  /// Throws corrupt, with an empty object, as all here do where the delta is not as wdelta-delta(5) says.
  Coding coding_of(std::uint64_t block);
  /// Whether its group does: GroupTables::skips_rows().
  bool skips_rows(std::uint64_t block);
  /// Of a block that is coded alone: BlockDecoder takes them. All stay where they are until the next begin().
  std::span<const std::uint8_t> bytes_of(std::uint64_t block);

  struct Classed {
    const GroupTables* group;
    std::uint64_t in_group;
    const ClassedChanges* changes;  ///< of its strip
  };
  /// Of a block that is in a classed strip, whether it has changes or not. Where nobody wanted it before, its batch is
  /// decoded now, and with it the next of those blocks that are to be asked for.
  Classed classed(std::uint64_t block);

  /// What batches take that are kept or wanted.
  std::size_t kept_bytes() const;

 private:
  struct Group {
    std::size_t index;
    std::unique_ptr<const GroupTables> tables;
  };
  struct Batch {
    std::size_t group;  // its index
    const GroupTables* tables;
    IndexRange strips;  // of the group
    IndexRange blocks;  // of the tensor
    std::size_t size_bytes;
    std::unique_ptr<DecodedBatch> decoded;
    enum class State { kept, wanted, ahead } state;
    std::uint64_t wanted_for;  // a block
  };
  const EntryGroup& entry_group(std::size_t index) const { return step_.entry->groups()[index]; }
  const GroupTables* tables_of(std::size_t group_index);
  const Batch* batch_of(std::uint64_t block) const;
  Batch batch_with(std::size_t group_index, const GroupTables& tables, std::uint64_t strip, Batch::State state,
                   std::uint64_t wanted_for) const;
  void add(Batch batch);
  template <class Which>
  void forget_batches(Which which);
  void read();

  BatchDecoder* with_;
  TensorPlan::Step step_{};
  const Tensor* tensor_ = nullptr;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::vector<Group> groups_;  // those that have parameters
  GroupReferences references_;
  std::vector<Batch> batches_;
  bool is_read_ = false;  // since begin()
  // Bytes of the delta from coded_begin_ on, and as many as are there.
  Buffer buffer_;
  std::span<const std::uint8_t> coded_;
  std::uint64_t coded_begin_ = 0;
};

}  // namespace wdelta
