// SPDX-License-Identifier: Apache-2.0
#include "base/reader.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace wdelta {

void ByteReader::refuse_changed() const {
  throw Error(Fault::local, name(), "changed while it was read", "wait until the program that writes it is done");
}

std::vector<std::uint8_t> read_all(const ByteReader& reader) {
  std::vector<std::uint8_t> bytes(reader.size_bytes());
  reader.read_at(0, bytes);
  return bytes;
}

SliceReader::SliceReader(std::shared_ptr<const ByteReader> whole, std::uint64_t offset, std::uint64_t size_bytes)
    : whole_(std::move(whole)), offset_(offset), size_bytes_(size_bytes) {
  if (offset > whole_->size_bytes() || size_bytes > whole_->size_bytes() - offset) {
    throw Error(
        Fault::corrupt, whole_->name(),
        fmt::format("bytes {} to {} asked for, the object has {}", offset, offset + size_bytes, whole_->size_bytes()));
  }
}

void ResizedReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  const std::uint64_t there = offset < whole_->size_bytes() ? whole_->size_bytes() - offset : 0;
  const auto inside = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(there, bytes.size())));
  if (!inside.empty()) whole_->read_at(offset, inside);
  std::ranges::fill(bytes.subspan(inside.size()), std::uint8_t{0});
}

MemoryReader::MemoryReader(std::vector<std::uint8_t> bytes, std::string name)
    : bytes_(std::move(bytes)), name_(std::move(name)) {}

void MemoryReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (offset > bytes_.size() || bytes.size() > bytes_.size() - offset) {
    throw Error(Fault::corrupt, name_,
                fmt::format("bytes {} to {} asked for, it has {}", offset, offset + bytes.size(), bytes_.size()));
  }
  std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), bytes.size(), bytes.begin());
}

}  // namespace wdelta
