// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <sys/mman.h>
#include <unistd.h>

namespace wdelta::testing {

/// Memory between two pages that nobody may touch: one byte too far on either side ends the test.
class Guarded {
 public:
  explicit Guarded(std::size_t capacity_bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    room_ = (capacity_bytes + page - 1) / page * page;
    mapped_ = room_ + 2 * page;
    void* const mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw std::bad_alloc();
    mapping_ = static_cast<std::uint8_t*>(mapping);
    begin_ = mapping_ + page;
    if (room_ != 0 && mprotect(begin_, room_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~Guarded() { munmap(mapping_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  /// The last `size_bytes` before the forbidden page, or `distance_bytes` further in for another alignment.
  std::span<std::uint8_t> last(std::size_t size_bytes, std::size_t distance_bytes = 0) {
    return {begin_ + room_ - size_bytes - distance_bytes, size_bytes};
  }
  /// The first `size_bytes` behind the forbidden page before.
  std::span<std::uint8_t> first(std::size_t size_bytes) { return {begin_, size_bytes}; }

  /// A copy of `bytes` that ends at the forbidden page.
  std::span<std::uint8_t> copy(std::span<const std::uint8_t> bytes, std::size_t distance_bytes = 0) {
    const std::span<std::uint8_t> place = last(bytes.size(), distance_bytes);
    if (!bytes.empty()) std::memcpy(place.data(), bytes.data(), bytes.size());
    return place;
  }

 private:
  std::size_t room_;
  std::size_t mapped_;
  std::uint8_t* mapping_;
  std::uint8_t* begin_;
};

}  // namespace wdelta::testing
