// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/cursor.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/description.hpp"
#include "engine/strips.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// Consecutive blocks of an entry with parameters of their own; or with none, as many as follow one another. Small, as
/// a hostile index may have one for every few of its bytes.
struct EntryGroup {
  Strips strips;
  std::uint64_t parameters_begin = 0;  ///< in the file
  std::uint64_t parameters_bytes = 0;  ///< 0: its blocks need none
  std::uint64_t first_batch = 0;       ///< among all of the entry
  /// DeltaReader::reference() of it is the group that the parameters refer to; else they refer to none.
  std::optional<std::uint32_t> reference;
  std::uint32_t strips_in_batch = 1;  ///< that are coded together; of the last batch fewer may be left

  std::uint64_t first_block() const { return strips.first_block; }
  std::uint64_t block_count() const { return strips.block_count; }
  /// Whether blocks may be coded alone, and not by classes.
  bool may_be_alone() const { return strips.blocks_in_strip == 1 && strips_in_batch == 1; }
};
static_assert(sizeof(EntryGroup) <= 64);

/// The coded blocks of one tensor of a delta.
class DeltaEntry {
 public:
  /// Where a coded batch lies.
  struct Place {
    std::uint64_t begin;  ///< in the file
    std::uint64_t end;
  };
  /// `batch_ends`: of each batch, in the file. It begins where the one before ends or, the first of a group, where the
  /// parameters do.
  DeltaEntry(std::string tensor, std::uint64_t size_bytes, std::vector<std::uint64_t> batch_ends,
             std::vector<EntryGroup> groups)
      : tensor_(std::move(tensor)),
        size_bytes_(size_bytes),
        batch_ends_(std::move(batch_ends)),
        groups_(std::move(groups)) {}

  const std::string& tensor() const { return tensor_; }
  /// The blocks of the strip that the block is in.
  IndexRange strip_of(std::uint64_t block) const;
  std::uint64_t block_count() const {
    return groups_.empty() ? 0 : groups_.back().first_block() + groups_.back().block_count();
  }
  /// They cover all blocks, in order.
  std::span<const EntryGroup> groups() const { return groups_; }
  /// The index of the group that the block is in.
  std::size_t group_of(std::uint64_t block) const;
  /// Of the batch that the block is in. Batches ascend; between those of two groups lie the parameters of the second.
  Place place_of(std::uint64_t block) const {
    const std::size_t group = group_of(block);
    return place_of(group, block - groups_[group].first_block());
  }
  /// The same of block `in_group` of a group.
  Place place_of(std::size_t group, std::uint64_t in_group) const {
    const EntryGroup& of = groups_[group];
    const std::uint64_t batch = of.strips.of(in_group) / of.strips_in_batch;
    const std::uint64_t* const end = &batch_ends_[of.first_batch + batch];
    return {batch == 0 ? of.parameters_begin + of.parameters_bytes : end[-1], *end};
  }
  std::uint64_t size_bytes() const { return size_bytes_; }

 private:
  std::string tensor_;
  std::uint64_t size_bytes_;
  std::vector<std::uint64_t> batch_ends_;
  std::vector<EntryGroup> groups_;
};

/// A delta, opened and checked: everything but the coded blocks themselves, which are checked as they are decoded.
class DeltaReader {
 public:
  /// Throws corrupt when anything in header, index or header entry is not as wdelta-delta(5) says, unsupported for
  /// another version or encoding.
  static DeltaReader open(std::shared_ptr<const ByteReader> file);

  const std::string& name() const { return file_->name(); }
  const DeltaDescription& description() const { return description_; }
  const Digest& digest() const { return digest_; }
  std::uint64_t size_bytes() const { return file_->size_bytes(); }
  /// ByteReader::changed_ns() of its file.
  std::optional<std::int64_t> changed_ns() const { return file_->changed_ns(); }

  /// In the order of the payload.
  std::span<const DeltaEntry> entries() const { return entries_; }
  /// A group that others refer to, of any entry.
  const EntryGroup& reference(std::size_t number) const { return references_[number]; }
  /// The entry of a tensor, or null: then the tensor has the bits of its source.
  const DeltaEntry* find(const std::string& tensor) const;
  /// The front of the result where it is not that of the first base file. Made each time out of its frame, which is far
  /// smaller: many deltas of a chain may be open.
  std::optional<std::vector<std::uint8_t>> stored_front() const;

  /// Reads bytes of the file from `begin` on.
  void read_at(std::uint64_t begin, std::span<std::uint8_t> bytes) const { file_->read_at(begin, bytes); }
  /// Throws corrupt unless the payload has the digest that the header says.
  void check_payload(const Execution& execution) const;

 private:
  void read_index(const SafetensorsHeader& header, const Metadata& metadata);
  /// What is left of an entry, in the file.
  struct Stretch {
    std::uint64_t begin;
    std::uint64_t end;
  };
  void add_tensor(Cursor& cursor, const std::string& tensor, Stretch& left);
  void read_shape(Cursor& cursor, const std::string& tensor, EntryGroup& group) const;
  void add_bundle(Cursor& cursor, Stretch& left);
  std::uint8_t read_encoding(Cursor& cursor, const std::string& entry) const;
  void find_front(const SafetensorsHeader& header, const Metadata& metadata);

  std::shared_ptr<const ByteReader> file_;
  DeltaDescription description_;
  Digest digest_;
  Digest payload_digest_;
  std::uint64_t payload_begin_ = 0;
  std::vector<DeltaEntry> entries_;
  std::uint64_t most_name_bytes_ = 0;   // of all bundles, that are left
  std::vector<EntryGroup> references_;  // groups that have parameters and refer to none
  std::map<std::string, std::size_t> by_tensor_;
  std::optional<Stretch> front_;  // its frame
};

}  // namespace wdelta
