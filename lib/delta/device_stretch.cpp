// SPDX-License-Identifier: Apache-2.0
#include "delta/device_stretch.hpp"

#include "engine/device_readable.hpp"

#include <algorithm>

namespace wdelta {
namespace {

constexpr std::size_t k_piece_bytes = std::size_t{1} << 20;

}  // namespace

void DeviceStretch::restart(std::size_t most_bytes) {
  on_device_.of_size(most_bytes);
  absent_.clear();
  room_bytes_ = most_bytes;
  size_bytes_ = 0;
  brought_index_ = brought_bytes_ = 0;
}

std::size_t DeviceStretch::append(const ByteReader& file, std::uint64_t offset, std::size_t size_bytes) {
  const std::size_t begin = size_bytes_;
  size_bytes_ += size_bytes;
  if (size_bytes == 0) return begin;
  if (const DeviceReadable* const readable = readable_on(*device_, file)) {
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
  const auto is_part = [&](const Part& part) { return part.begin <= place && place + size_bytes <= part.end; };
  if (std::ranges::none_of(absent_, is_part)) return {on_host_.begin() + place, size_bytes};
  std::uint8_t* const bytes = room_for(size_bytes);
  stream_->download(bytes, on_device(place), size_bytes);
  stream_->wait();
  return {bytes, size_bytes};
}

std::uint8_t* DeviceStretch::room_for(std::size_t size_bytes) {
  if (brought_bytes_ + size_bytes > k_piece_bytes && brought_bytes_ != 0) {
    ++brought_index_;
    brought_bytes_ = 0;
  }
  if (brought_index_ == brought_.size()) brought_.emplace_back(*device_, DeviceBuffer::Place::pinned);
  std::uint8_t* const room = brought_[brought_index_].of_size(std::max(k_piece_bytes, size_bytes)) + brought_bytes_;
  brought_bytes_ += size_bytes;
  return room;
}

}  // namespace wdelta
