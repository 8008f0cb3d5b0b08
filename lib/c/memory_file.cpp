// SPDX-License-Identifier: Apache-2.0
#include "c/memory_file.hpp"

#include "base/parallel.hpp"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace wdelta {

KeptBytesReader::KeptBytesReader(const ByteReader& source, const Execution& execution) : name_(source.name()) {
  constexpr std::size_t k_worth_large_pages = std::size_t{4} << 20;
  if (source.size_bytes() > 0) bytes_ = memory_.of_size(static_cast<std::size_t>(source.size_bytes()));
  // Else filling it for the first time costs a page fault for every 4 KiB. It is advice: nothing depends on it.
  if (bytes_.size() >= k_worth_large_pages) ::madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE);
  overwrite(source, execution);
}

void KeptBytesReader::overwrite(const ByteReader& source, const Execution& execution) {
  constexpr std::size_t k_stretch_bytes = std::size_t{4} << 20;
  const auto read = [&](std::size_t stretch) {
    const std::size_t begin = stretch * k_stretch_bytes;
    source.read_at(begin, bytes_.subspan(begin, std::min(k_stretch_bytes, bytes_.size() - begin)));
  };
  const std::size_t stretches = (bytes_.size() + k_stretch_bytes - 1) / k_stretch_bytes;
  if (stretches <= 1) {
    if (stretches == 1) read(0);
    return;
  }
  parallel_for(stretches, execution, [&] { return read; });
}

void KeptBytesReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (!bytes.empty()) std::memcpy(bytes.data(), bytes_.data() + offset, bytes.size());
}

void JoinedReader::append(std::shared_ptr<const ByteReader> part) {
  if (part->size_bytes() == 0) return;
  parts_.push_back({size_bytes_, part});
  size_bytes_ += part->size_bytes();
}

void JoinedReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (offset < front_.size()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), front_.size() - offset);
    std::copy_n(front_.begin() + static_cast<std::ptrdiff_t>(offset), count, bytes.begin());
    offset += count;
    bytes = bytes.subspan(count);
  }
  if (bytes.empty()) return;
  auto part = std::ranges::upper_bound(parts_, offset, {}, &Part::begin) - 1;
  for (; !bytes.empty(); ++part) {
    const std::uint64_t from = offset - part->begin;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), part->bytes->size_bytes() - from));
    part->bytes->read_at(from, bytes.first(count));
    offset += count;
    bytes = bytes.subspan(count);
  }
}

}  // namespace wdelta
