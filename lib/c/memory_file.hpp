// SPDX-License-Identifier: Apache-2.0
// Files that are in memory only.
#pragma once

#include "base/buffer.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

/// Bytes in memory of their own, as many as there is memory for.
class KeptBytesReader final : public ByteReader {
 public:
  /// All of `source`, read once, by several threads where it is large.
  KeptBytesReader(const ByteReader& source, const Execution& execution);

  /// The same from another source of this size, over what was there. Nobody may be reading.
  void overwrite(const ByteReader& source, const Execution& execution);

  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

 private:
  Buffer memory_;
  std::span<std::uint8_t> bytes_;
  std::string name_;
};

/// A file made of a front and of tensors that follow it one behind the other.
class JoinedReader final : public ByteReader {
 public:
  JoinedReader(std::vector<std::uint8_t> front, std::string name) : front_(std::move(front)), name_(std::move(name)) {
    size_bytes_ = front_.size();
  }
  void append(std::shared_ptr<const ByteReader> part);

  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

 private:
  struct Part {
    std::uint64_t begin;
    std::shared_ptr<const ByteReader> bytes;
  };
  std::vector<std::uint8_t> front_;
  std::string name_;
  std::vector<Part> parts_;  // none is empty
  std::uint64_t size_bytes_ = 0;
};

}  // namespace wdelta
