// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <sys/mman.h>
#include <utility>

namespace wdelta {

/// Of memory and of files. Where pages are larger they are multiples of this.
inline constexpr std::size_t k_memory_page_bytes = 4096;

/// Page-aligned scratch memory that is not zeroed again and keeps its pages: a thread reads segment after segment into
/// the same one, so that the page faults are paid once. Mapped rather than allocated, so that it goes back to the
/// system at once: an allocator keeps such pieces in each thread's arena, which made a diff of many shards grow with
/// them.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept
      : bytes_(std::exchange(other.bytes_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Buffer() {
    if (bytes_ != nullptr) ::munmap(bytes_, capacity_);
  }

  /// `size_bytes` of it; the content is whatever was there, or lost when it has to grow. Never shrinks.
  std::span<std::uint8_t> of_size(std::size_t size_bytes) {
    if (size_bytes > capacity_) {
      *this = Buffer(size_bytes);
    }
    return {static_cast<std::uint8_t*>(bytes_), size_bytes};
  }

 private:
  explicit Buffer(std::size_t size_bytes)
      : capacity_((size_bytes + k_memory_page_bytes - 1) / k_memory_page_bytes * k_memory_page_bytes) {
    bytes_ = ::mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes_ == MAP_FAILED) {
      bytes_ = nullptr;
      throw std::bad_alloc();
    }
  }

  void* bytes_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace wdelta
