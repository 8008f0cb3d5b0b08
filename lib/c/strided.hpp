// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace wdelta {

/// How the elements of a tensor lie in memory, seen as its bytes in row-major order without gaps.
class Strided {
 public:
  /// Strides are in elements. Throws usage, naming `name`, where they reach further than memory can.
  Strided(std::span<const std::uint64_t> shape, std::span<const std::int64_t> strides, std::size_t width_bytes,
          const char* name);
  bool operator==(const Strided& other) const = default;

  /// Whether all lie one behind the other, in this order.
  bool is_dense() const { return axes_.empty() || (axes_.size() == 1 && axes_[0].stride_bytes == width_bytes()); }
  /// The bytes that are touched: from this offset, which is 0 or less, to that one.
  std::int64_t lowest_bytes() const { return lowest_bytes_; }
  std::int64_t highest_bytes() const { return highest_bytes_; }
  /// Whether two elements may lie in one place.
  bool may_overlap() const;

  /// Bytes from `offset` of the row-major order, out of memory whose first element is at `first`.
  void gather(const std::uint8_t* first, std::uint64_t offset, std::span<std::uint8_t> to) const;
  /// The same into memory.
  void scatter(std::span<const std::uint8_t> from, std::uint64_t offset, std::uint8_t* first) const;
  /// Calls visit(offset in memory from the first element on, bytes) for stretches without gaps: those of so many bytes
  /// from `offset` of the row-major order, in that order.
  void for_each_dense(std::uint64_t offset, std::uint64_t size_bytes,
                      const std::function<void(std::int64_t, std::uint64_t)>& visit) const;

 private:
  struct Axis {
    std::uint64_t extent = 0;
    std::int64_t stride_bytes = 0;
    bool operator==(const Axis& other) const = default;
  };
  std::int64_t width_bytes() const { return static_cast<std::int64_t>(width_bytes_); }
  // visit(offset in memory, bytes in a row, how many such rows, from row to row) for stretches that follow each other.
  template <typename Visit>
  void for_each_run(std::uint64_t offset, std::uint64_t size_bytes, Visit visit) const;

  std::size_t width_bytes_;
  std::vector<Axis> axes_;  // those with one element left out, neighbours merged where they can be
  std::int64_t lowest_bytes_ = 0;
  std::int64_t highest_bytes_ = 0;
};

}  // namespace wdelta
