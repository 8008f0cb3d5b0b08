// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace wdelta {

/// Page-aligned scratch memory that is not zeroed and keeps its pages when it is used again: a thread reads segment
/// after segment into the same one, so that the page faults are paid once.
class Buffer {
 public:
  /// `size_bytes` of it; the content is whatever was there. Grows, never shrinks.
  std::span<std::uint8_t> of_size(std::size_t size_bytes) {
    if (size_bytes > capacity_) {
      bytes_.reset();
      capacity_ = (size_bytes + k_page - 1) / k_page * k_page;
      bytes_.reset(static_cast<std::uint8_t*>(std::aligned_alloc(k_page, capacity_)));
      if (!bytes_) throw std::bad_alloc();
    }
    return {bytes_.get(), size_bytes};
  }

 private:
  static constexpr std::size_t k_page = 4096;
  struct Free {
    void operator()(std::uint8_t* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::uint8_t, Free> bytes_;
  std::size_t capacity_ = 0;
};

}  // namespace wdelta
