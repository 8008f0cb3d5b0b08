// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/reader.hpp"
#include "checkpoint/safetensors.hpp"
#include "delta/description.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace wdelta {

/// The coded blocks of one tensor of a delta.
class DeltaEntry {
 public:
  DeltaEntry(std::string tensor, std::uint64_t begin, std::vector<std::uint64_t> block_ends)
      : tensor_(std::move(tensor)), begin_(begin), block_ends_(std::move(block_ends)) {}

  const std::string& tensor() const { return tensor_; }
  std::uint64_t block_count() const { return block_ends_.size(); }
  /// Where block `block` begins in the file; block_count() gives the end of the last.
  std::uint64_t block_begin(std::uint64_t block) const { return begin_ + (block == 0 ? 0 : block_ends_[block - 1]); }
  std::uint64_t size_bytes() const { return block_ends_.empty() ? 0 : block_ends_.back(); }

 private:
  std::string tensor_;
  std::uint64_t begin_;
  std::vector<std::uint64_t> block_ends_;
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

  /// In the order of the payload.
  std::span<const DeltaEntry> entries() const { return entries_; }
  /// The entry of a tensor, or null: then the tensor has the bits of its source.
  const DeltaEntry* find(const std::string& tensor) const;
  /// The front of the result where it is not that of the first base file.
  const std::optional<std::vector<std::uint8_t>>& stored_front() const { return stored_front_; }

  /// Reads coded blocks [first, last) of `entry`; `bytes` is as long as they are.
  void read_blocks(const DeltaEntry& entry, std::uint64_t first, std::span<std::uint8_t> bytes) const {
    file_->read_at(entry.block_begin(first), bytes);
  }
  /// Throws corrupt unless the payload has the digest that the header says.
  void check_payload(const Execution& execution) const;

 private:
  void read_index(const SafetensorsHeader& header, const Metadata& metadata);
  void read_front(const SafetensorsHeader& header, const Metadata& metadata);

  std::shared_ptr<const ByteReader> file_;
  DeltaDescription description_;
  Digest digest_;
  Digest payload_digest_;
  std::uint64_t payload_begin_ = 0;
  std::vector<DeltaEntry> entries_;
  std::unordered_map<std::string, std::size_t> by_tensor_;
  std::optional<std::vector<std::uint8_t>> stored_front_;
};

}  // namespace wdelta
