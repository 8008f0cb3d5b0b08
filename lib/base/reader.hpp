// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mapped_stretch.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

/// Bytes that can be read at any offset: a file, a part of an object, a checkpoint file rebuilt while it is read.
class ByteReader {
 public:
  static constexpr std::size_t k_small_piece_bytes = std::size_t{256} << 10;
  static constexpr std::size_t k_large_piece_bytes = std::size_t{4} << 20;

  virtual ~ByteReader() = default;

  virtual std::uint64_t size_bytes() const = 0;
  /// Fills `bytes` from `offset`; the range lies inside. Safe to call from several threads.
  virtual void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const = 0;
  /// What to call it in a message.
  virtual const std::string& name() const = 0;
  /// How many bytes to ask for at a time when all are read: a multiple of 256 KiB. Little where bytes are at hand, so
  /// that they can be worked on in the cache that they are read into; much where each call costs.
  virtual std::size_t piece_bytes() const { return k_large_piece_bytes; }
  bool is_at_hand() const { return piece_bytes() < k_large_piece_bytes; }
  /// Throws local when the bytes may no longer be those that were there at opening: what was read may be a mixture.
  virtual void check_unchanged() const {}
  /// When the bytes changed last, in ns: where two calls give the same time, and that lies before the first of them,
  /// all that was read between is of the same bytes. 0 where they never change; nothing where it can't be told. By
  /// another clock than ours where a file lies on another machine.
  virtual std::optional<std::int64_t> changed_ns() const { return std::nullopt; }
  /// The same bytes where they lie in memory, where they can be had so; the range lies inside.
  virtual std::optional<MappedStretch> map(std::uint64_t /*offset*/, std::size_t /*size_bytes*/) const {
    return std::nullopt;
  }

 protected:
  /// What check_unchanged() throws.
  [[noreturn]] void refuse_changed() const;
};

/// Reads all of it into memory; for what is known to be small.
std::vector<std::uint8_t> read_all(const ByteReader& reader);

/// A part of another reader, seen as a reader of its own.
class SliceReader final : public ByteReader {
 public:
  /// Throws corrupt when the slice does not lie inside `whole`.
  SliceReader(std::shared_ptr<const ByteReader> whole, std::uint64_t offset, std::uint64_t size_bytes);

  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    whole_->read_at(offset_ + offset, bytes);
  }
  const std::string& name() const override { return whole_->name(); }
  std::size_t piece_bytes() const override { return whole_->piece_bytes(); }
  void check_unchanged() const override { whole_->check_unchanged(); }
  std::optional<MappedStretch> map(std::uint64_t offset, std::size_t size_bytes) const override {
    return whole_->map(offset_ + offset, size_bytes);
  }
  std::optional<std::int64_t> changed_ns() const override { return whole_->changed_ns(); }

 private:
  std::shared_ptr<const ByteReader> whole_;
  std::uint64_t offset_;
  std::uint64_t size_bytes_;
};

/// Another reader seen at a size of its own: cut off, or continued by zero bytes.
class ResizedReader final : public ByteReader {
 public:
  ResizedReader(std::shared_ptr<const ByteReader> whole, std::uint64_t size_bytes)
      : whole_(std::move(whole)), size_bytes_(size_bytes) {}

  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return whole_->name(); }
  std::size_t piece_bytes() const override { return whole_->piece_bytes(); }
  void check_unchanged() const override { whole_->check_unchanged(); }
  std::optional<std::int64_t> changed_ns() const override { return whole_->changed_ns(); }
  std::optional<MappedStretch> map(std::uint64_t offset, std::size_t size_bytes) const override {
    if (offset + size_bytes > whole_->size_bytes()) return std::nullopt;
    return whole_->map(offset, size_bytes);
  }

 private:
  std::shared_ptr<const ByteReader> whole_;
  std::uint64_t size_bytes_;
};

/// Bytes in memory, owned.
class MemoryReader final : public ByteReader {
 public:
  MemoryReader(std::vector<std::uint8_t> bytes, std::string name);

  std::uint64_t size_bytes() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }
  std::optional<std::int64_t> changed_ns() const override { return 0; }

 private:
  std::vector<std::uint8_t> bytes_;
  std::string name_;
};

}  // namespace wdelta
