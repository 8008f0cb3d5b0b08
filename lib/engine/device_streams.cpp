// SPDX-License-Identifier: Apache-2.0
#include "engine/device_streams.hpp"

#include "engine/host_pins.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace wdelta {
namespace {

// One piece is copied by the processor while the device copies the other. Pinned memory takes half a millisecond for
// each MiB (H200), so there is not more of it than hides what a copy takes to begin.
constexpr std::size_t k_piece_bytes = std::size_t{512} << 10;

std::size_t piece_at(std::size_t at, std::size_t size_bytes) { return std::min(k_piece_bytes, size_bytes - at); }

}  // namespace

DeviceStreams::Lane DeviceStreams::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Lane lane = std::move(idle_.back());
      idle_.pop_back();
      return lane;
    }
  }
  return {DeviceBuffer(*device_, DeviceBuffer::Place::pinned), device_->make_stream()};
}

void DeviceStreams::give_back(Lane lane) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(lane));
}

void DeviceStreams::upload(void* to, const void* from, std::size_t size_bytes) {
  if (size_bytes > 0 && device_->pins().holds(from, size_bytes))
    return with_one([&](DeviceStream& stream) { stream.upload(to, from, size_bytes); });
  upload(to, size_bytes, [from](std::size_t offset, std::span<std::uint8_t> piece) {
    std::memcpy(piece.data(), static_cast<const std::uint8_t*>(from) + offset, piece.size());
  });
}

void DeviceStreams::upload(void* to, std::size_t size_bytes, const Read& read) {
  if (size_bytes == 0) return;
  Lane lane = take();
  std::uint8_t* const pieces = lane.pinned.of_size(std::min(size_bytes, 2 * k_piece_bytes));
  for (std::size_t at = 0; at < size_bytes; at += k_piece_bytes) {
    std::uint8_t* const piece = pieces + at % (2 * k_piece_bytes);
    read(at, {piece, piece_at(at, size_bytes)});
    lane.stream->wait();  // for the piece before: its memory is what the next one goes to
    lane.stream->upload(static_cast<std::uint8_t*>(to) + at, piece, piece_at(at, size_bytes));
  }
  lane.stream->wait();
  give_back(std::move(lane));
}

void DeviceStreams::download(void* to, const void* from, std::size_t size_bytes) {
  if (size_bytes == 0) return;
  if (device_->pins().holds(to, size_bytes))
    return with_one([&](DeviceStream& stream) { stream.download(to, from, size_bytes); });
  Lane lane = take();
  std::uint8_t* const pieces = lane.pinned.of_size(std::min(size_bytes, 2 * k_piece_bytes));
  const auto ask = [&](std::size_t at) {
    lane.stream->download(pieces + at % (2 * k_piece_bytes), static_cast<const std::uint8_t*>(from) + at,
                          piece_at(at, size_bytes));
  };
  ask(0);
  for (std::size_t at = 0; at < size_bytes; at += k_piece_bytes) {
    lane.stream->wait();
    if (at + k_piece_bytes < size_bytes) ask(at + k_piece_bytes);
    std::memcpy(static_cast<std::uint8_t*>(to) + at, pieces + at % (2 * k_piece_bytes), piece_at(at, size_bytes));
  }
  give_back(std::move(lane));
}

}  // namespace wdelta
