// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

namespace wdelta {

/// Plain values in a row, in memory that is kept from one use to the next and never zeroed.
template <class T>
class ScratchVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  std::size_t size() const { return size_; }
  const T* data() const { return items_.get(); }
  T* data() { return items_.get(); }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }
  std::span<const T> span() const { return {items_.get(), size_}; }
  std::span<T> span() { return {items_.get(), size_}; }

  void clear() { size_ = 0; }
  /// `size` is at most size().
  void cut(std::size_t size) { size_ = size; }
  /// So many more, which hold anything. Earlier pointers become invalid.
  T* extend(std::size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    T* const begin = items_.get() + size_;
    size_ += count;
    return begin;
  }
  void append(const T* items, std::size_t count) {
    if (count != 0) std::memcpy(extend(count), items, count * sizeof(T));
  }

 private:
  void grow(std::size_t capacity) {
    capacity_ = std::max(capacity, 2 * capacity_);
    auto larger = std::make_unique_for_overwrite<T[]>(capacity_);
    if (size_ != 0) std::memcpy(larger.get(), items_.get(), size_ * sizeof(T));
    items_ = std::move(larger);
  }

  std::unique_ptr<T[]> items_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace wdelta
