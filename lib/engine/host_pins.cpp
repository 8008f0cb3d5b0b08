// SPDX-License-Identifier: Apache-2.0
#include "engine/host_pins.hpp"

#include <mutex>

namespace wdelta {

HostPins::Pin::~Pin() {
  if (of_ != nullptr) of_->unpin(memory_);
}

HostPins::Pin HostPins::pin(std::span<std::uint8_t> memory) {
  if (memory.empty() || !device_->pin(memory)) return {};
  const std::unique_lock lock(mutex_);
  sizes_[memory.data()] = memory.size();
  return {*this, memory};
}

void HostPins::unpin(std::span<std::uint8_t> memory) {
  {
    const std::unique_lock lock(mutex_);
    sizes_.erase(memory.data());
  }
  device_->unpin(memory);
}

bool HostPins::holds(const void* begin, std::size_t size_bytes) const {
  const auto* const first = static_cast<const std::uint8_t*>(begin);
  const std::shared_lock lock(mutex_);
  auto behind = sizes_.upper_bound(first);
  if (behind == sizes_.begin()) return false;
  --behind;
  const auto offset = static_cast<std::size_t>(first - behind->first);
  return offset <= behind->second && size_bytes <= behind->second - offset;
}

}  // namespace wdelta
