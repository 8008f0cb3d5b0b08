// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_copy.hpp"

#include "base/error.hpp"
#include "base/reader_digest.hpp"

#include <algorithm>

namespace wdelta {

namespace {

// What was written so far, to be read back.
class WrittenBytes final : public ByteReader {
 public:
  WrittenBytes(const OutputFile& output, std::uint64_t size_bytes) : output_(&output), size_bytes_(size_bytes) {}
  std::uint64_t size_bytes() const override { return size_bytes_; }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override { output_->read_at(offset, bytes); }
  const std::string& name() const override { return name_; }

 private:
  const OutputFile* output_;
  std::uint64_t size_bytes_;
  std::string name_ = "copy";
};

bool copy_ranges(const File& file, OutputFile& copy, const Execution& execution) {
  constexpr std::uint64_t k_at_once = std::uint64_t{64} << 20;  // to be stopped within a second
  for (std::uint64_t offset = 0; offset < file.size_bytes();) {
    execution.check_stop();
    const std::uint64_t copied = copy.copy_range(file, offset, std::min(k_at_once, file.size_bytes() - offset));
    if (copied == 0) return false;
    offset += copied;
  }
  return true;
}

}  // namespace

Digest kernel_copy(const File& file, OutputFile& copy, const Execution& execution) {
  if (!copy.clone(file)) {
    copy.reserve(file.size_bytes());
    if (!copy_ranges(file, copy, execution)) return copy_and_digest(file, copy, execution);
  }
  return digest_of(WrittenBytes(copy, file.size_bytes()), execution);
}

}  // namespace wdelta
