// SPDX-License-Identifier: Apache-2.0
#include "delta/device_stretch.hpp"

#include "engine/device_readable.hpp"

#include <algorithm>

namespace wdelta {

void DeviceStretch::restart(std::size_t most_bytes) {
  on_device_.of_size(most_bytes);
  absent_.clear();
  room_bytes_ = most_bytes;
  size_bytes_ = 0;
}

std::size_t DeviceStretch::append(const ByteReader& file, std::uint64_t offset, std::size_t size_bytes) {
  const std::size_t begin = size_bytes_;
  size_bytes_ += size_bytes;
  if (size_bytes == 0) return begin;
  const auto* const readable = dynamic_cast<const DeviceReadable*>(&file);
  if (readable != nullptr && readable->is_on(*device_)) {
    readable->read_to_device(offset, on_device(begin), size_bytes, *stream_);
    absent_.push_back({begin, size_bytes_});
    return begin;
  }
  std::uint8_t* const bytes = on_host_.of_size(room_bytes_) + begin;
  file.read_at(offset, {bytes, size_bytes});
  stream_->upload(on_device(begin), bytes, size_bytes);
  return begin;
}

std::span<const std::uint8_t> DeviceStretch::on_host(std::size_t place, std::size_t size_bytes) {
  std::uint8_t* const bytes = on_host_.of_size(room_bytes_);
  bool is_asked = false;
  for (const Part& part : absent_) {
    const std::size_t from = std::max(place, part.begin);
    const std::size_t to = std::min(place + size_bytes, part.end);
    if (from >= to) continue;
    stream_->download(bytes + from, on_device(from), to - from);
    is_asked = true;
  }
  if (is_asked) stream_->wait();
  return {bytes + place, size_bytes};
}

}  // namespace wdelta
