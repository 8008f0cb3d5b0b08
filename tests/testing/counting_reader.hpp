// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta::testing {

/// Bytes in memory; counts those that are read.
class CountingReader final : public ByteReader {
 public:
  explicit CountingReader(std::vector<std::uint8_t> bytes) : bytes_(std::move(bytes), "counted") {}

  std::uint64_t size_bytes() const override { return bytes_.size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    read_bytes_ += bytes.size();
    bytes_.read_at(offset, bytes);
  }
  const std::string& name() const override { return bytes_.name(); }

  std::uint64_t read_bytes() const { return read_bytes_; }

 private:
  MemoryReader bytes_;
  mutable std::atomic<std::uint64_t> read_bytes_ = 0;
};

}  // namespace wdelta::testing
