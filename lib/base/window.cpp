// SPDX-License-Identifier: Apache-2.0
#include "base/window.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace wdelta {

namespace {

// A piece of a segment and a block of bf16: all of this is written to in turn, and with a second window and an
// encoder's scratch still is less than a cache of 1 MiB.
constexpr std::size_t k_least_capacity = std::size_t{400} << 10;

}  // namespace

std::span<std::uint8_t> Window::extend(std::size_t size_bytes) {
  if (zero_ > begin_ || place_of(end_) + size_bytes > capacity_) move_to_front(size_bytes);
  const std::uint64_t from = std::exchange(end_, end_ + size_bytes);
  return bytes(from, end_);
}

// Makes room for `size_bytes` behind what is held.
void Window::move_to_front(std::size_t size_bytes) {
  const std::size_t held_bytes = end_ - begin_;
  const std::uint64_t zero = begin_ / k_memory_page_bytes * k_memory_page_bytes;
  const std::size_t needed = static_cast<std::size_t>(end_ - zero) + size_bytes;
  std::uint8_t* const held = held_bytes == 0 ? nullptr : bytes(begin_, end_).data();
  if (needed > capacity_) {
    Buffer larger;
    const std::size_t capacity = std::max(needed, k_least_capacity);
    const auto memory = larger.of_size(capacity);
    if (held != nullptr) std::memcpy(memory.data() + (begin_ - zero), held, held_bytes);
    std::swap(memory_, larger);
    capacity_ = capacity;
  } else if (held != nullptr) {
    std::memmove(memory_.of_size(needed).data() + (begin_ - zero), held, held_bytes);
  }
  zero_ = zero;
}

}  // namespace wdelta
