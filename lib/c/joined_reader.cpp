// SPDX-License-Identifier: Apache-2.0
#include "c/joined_reader.hpp"

#include <algorithm>

namespace wdelta {

void JoinedReader::append(std::shared_ptr<const ByteReader> part) {
  if (part->size_bytes() == 0) return;
  parts_.push_back({size_bytes_, part, dynamic_cast<const DeviceReadable*>(part.get())});
  size_bytes_ += part->size_bytes();
  piece_bytes_ = std::max(piece_bytes_, part->piece_bytes());
}

template <typename Visit>
void JoinedReader::for_each_part(std::uint64_t offset, std::size_t size_bytes, Visit visit) const {
  std::size_t done = 0;
  if (offset < front_.size() && size_bytes > 0) {
    done = std::min<std::size_t>(size_bytes, front_.size() - offset);
    visit(nullptr, offset, 0, done);
  }
  if (done == size_bytes) return;
  auto part = std::ranges::upper_bound(parts_, offset + done, {}, &Part::begin) - 1;
  for (; done < size_bytes; ++part) {
    const std::uint64_t from = offset + done - part->begin;
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(size_bytes - done, part->bytes->size_bytes() - from));
    visit(&*part, from, done, count);
    done += count;
  }
}

void JoinedReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  for_each_part(offset, bytes.size(), [&](const Part* part, std::uint64_t from, std::size_t begin, std::size_t count) {
    if (part == nullptr) {
      std::copy_n(front_.begin() + static_cast<std::ptrdiff_t>(from), count, bytes.begin());
    } else {
      part->bytes->read_at(from, bytes.subspan(begin, count));
    }
  });
}

bool JoinedReader::is_on(const Device& device) const {
  return std::ranges::any_of(
      parts_, [&](const Part& part) { return part.readable != nullptr && part.readable->is_on(device); });
}

void JoinedReader::read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const {
  auto* const place = static_cast<std::uint8_t*>(to);
  for_each_part(offset, size_bytes, [&](const Part* part, std::uint64_t from, std::size_t begin, std::size_t count) {
    if (part == nullptr) return stream.upload(place + begin, front_.data() + from, count);
    if (part->readable != nullptr) return part->readable->read_to_device(from, place + begin, count, stream);
    // What is on the host, in a file whose larger part is not: few bytes, which have to last until they are there.
    std::vector<std::uint8_t> bytes(count);
    part->bytes->read_at(from, bytes);
    stream.upload(place + begin, bytes.data(), count);
    stream.wait();
  });
}

}  // namespace wdelta
