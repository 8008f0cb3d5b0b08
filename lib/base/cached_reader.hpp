// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace wdelta {

/// Another reader whose bytes take work: they are made in pieces of 256 KiB, and those that were asked for last, of all
/// such readers together, are kept. For what is read about in order, in parts that overlap, by something that is read
/// so itself: without this each such layer would double the work of those below.
class CachedReader final : public ByteReader {
 public:
  explicit CachedReader(std::shared_ptr<const ByteReader> whole) : whole_(std::move(whole)) {}
  ~CachedReader() override;

  std::uint64_t size_bytes() const override { return whole_->size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return whole_->name(); }
  std::size_t piece_bytes() const override { return whole_->piece_bytes(); }
  void check_unchanged() const override { whole_->check_unchanged(); }

 private:
  std::shared_ptr<const ByteReader> whole_;
};

}  // namespace wdelta
