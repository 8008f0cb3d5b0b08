// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/output_file.hpp"
#include "base/reader.hpp"

#include <string>
#include <utility>

namespace wdelta {

/// What was written into an output so far, seen as a reader. The output must outlive it.
class OutputReader final : public ByteReader {
 public:
  OutputReader(const OutputFile& output, std::string name)
      : output_(&output), size_bytes_(output.size_bytes()), name_(std::move(name)) {}

  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override { output_->read_at(offset, bytes); }
  const std::string& name() const override { return name_; }

 private:
  const OutputFile* output_;
  std::uint64_t size_bytes_;
  std::string name_;
};

}  // namespace wdelta
