// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/blake3.hpp"
#include "base/output_file.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

namespace wdelta {

/// Bytes that come one behind the other, are hashed, and are read when all are there: kept in memory while they are
/// few, and beyond that in a file beside `path`, never in a small /tmp, with the permissions of what lies at `path`.
class PayloadSpool {
 public:
  /// So many are kept in memory: more than most deltas have, which so are written once, not twice.
  static constexpr std::size_t k_most_held_bytes = std::size_t{16} << 20;

  explicit PayloadSpool(std::filesystem::path path);

  void append(std::span<const std::uint8_t> bytes);
  std::uint64_t size_bytes() const { return filed_bytes() + held_.size(); }
  /// Of all that was appended.
  Digest digest() const;
  /// Several threads may, once nothing more is appended. The bytes are there.
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const;

 private:
  // What is worth a call, to hash or to write.
  static constexpr std::size_t k_piece_bytes = std::size_t{256} << 10;

  std::uint64_t filed_bytes() const { return file_ ? file_->appended_bytes() : 0; }
  std::span<const std::uint8_t> not_hashed() const { return std::span(held_).subspan(hashed_); }

  std::filesystem::path path_;
  std::optional<OutputFile> file_;
  std::vector<std::uint8_t> held_;  // behind what is in the file
  std::size_t hashed_ = 0;          // of these
  Blake3 hash_;
};

}  // namespace wdelta
