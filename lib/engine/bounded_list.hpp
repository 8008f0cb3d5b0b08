// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>
#include <type_traits>

namespace wdelta {

/// Plain values in a row, at most so many, and no memory but its own: for what is made a thousand times a second.
template <class T, std::size_t most>
class BoundedList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;

  BoundedList() = default;
  explicit BoundedList(std::size_t count, T value = T()) : size_(checked(count)) { std::fill_n(items_, count, value); }
  BoundedList(std::initializer_list<T> items) : size_(checked(items.size())) { std::ranges::copy(items, items_); }
  BoundedList(const BoundedList& other) : size_(other.size_) { std::ranges::copy(other, items_); }
  BoundedList& operator=(const BoundedList& other) {
    size_ = other.size_;
    std::ranges::copy(other, items_);
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return items_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  const T* begin() const { return items_; }
  T* end() { return items_ + size_; }
  const T* end() const { return items_ + size_; }
  T& operator[](std::size_t i) { return items_[i]; }
  const T& operator[](std::size_t i) const { return items_[i]; }

  void clear() { size_ = 0; }
  /// Throws std::length_error where there is no room.
  void push_back(T item) {
    size_ = checked(size_ + 1);
    items_[size_ - 1] = item;
  }

  friend bool operator==(const BoundedList& one, const BoundedList& other) { return std::ranges::equal(one, other); }

 private:
  static std::size_t checked(std::size_t count) {
    if (count > most) throw std::length_error("BoundedList");
    return count;
  }

  std::size_t size_ = 0;
  T items_[most];  // as many as there are have a value
};

}  // namespace wdelta
