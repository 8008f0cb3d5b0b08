// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_copy.hpp"

#include "base/output_reader.hpp"
#include "base/reader_digest.hpp"

#include <algorithm>

namespace wdelta {

namespace {

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
  return digest_of(OutputReader(copy, "copy"), execution);
}

}  // namespace wdelta
