// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta::testing {

/// Bytes in memory or of another reader; counts those that are read.
class CountingReader final : public ByteReader {
 public:
  explicit CountingReader(std::vector<std::uint8_t> bytes)
      : CountingReader(std::make_shared<MemoryReader>(std::move(bytes), "counted")) {}
  explicit CountingReader(std::shared_ptr<const ByteReader> counted) : counted_(std::move(counted)) {}

  std::uint64_t size_bytes() const override { return counted_->size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    read_bytes_ += bytes.size();
    counted_->read_at(offset, bytes);
  }
  const std::string& name() const override { return counted_->name(); }
  std::size_t piece_bytes() const override { return counted_->piece_bytes(); }
  std::optional<std::int64_t> changed_ns() const override { return counted_->changed_ns(); }

  std::uint64_t read_bytes() const { return read_bytes_; }

 private:
  std::shared_ptr<const ByteReader> counted_;
  mutable std::atomic<std::uint64_t> read_bytes_ = 0;
};

}  // namespace wdelta::testing
