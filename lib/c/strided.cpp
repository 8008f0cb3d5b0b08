// SPDX-License-Identifier: Apache-2.0
#include "c/strided.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace wdelta {

namespace {

// With the width known to the compiler each is one load and one store.
template <std::size_t k_width>
void copy_elements(std::uint8_t* to, std::int64_t to_step, const std::uint8_t* from, std::int64_t from_step,
                   std::uint64_t count) {
  for (; count > 0; --count, to += to_step, from += from_step) std::memcpy(to, from, k_width);
}

void copy_elements_of(std::size_t width, std::uint8_t* to, std::int64_t to_step, const std::uint8_t* from,
                      std::int64_t from_step, std::uint64_t count) {
  switch (width) {
    case 1:
      return copy_elements<1>(to, to_step, from, from_step, count);
    case 2:
      return copy_elements<2>(to, to_step, from, from_step, count);
    case 4:
      return copy_elements<4>(to, to_step, from, from_step, count);
    default:
      return copy_elements<8>(to, to_step, from, from_step, count);
  }
}

}  // namespace

Strided::Strided(std::span<const std::uint64_t> shape, std::span<const std::int64_t> strides, std::size_t width_bytes,
                 const char* name)
    : width_bytes_(width_bytes) {
  if (std::ranges::find(shape, 0u) != shape.end()) return;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    Axis axis{shape[i], 0};
    std::int64_t reach = 0;
    const bool fits = !__builtin_mul_overflow(strides[i], static_cast<std::int64_t>(width_bytes), &axis.stride_bytes) &&
                      !__builtin_mul_overflow(axis.stride_bytes, static_cast<std::int64_t>(shape[i] - 1), &reach) &&
                      !(reach < 0 ? __builtin_add_overflow(lowest_bytes_, reach, &lowest_bytes_)
                                  : __builtin_add_overflow(highest_bytes_, reach, &highest_bytes_));
    if (!fits) throw Error(Fault::usage, name, "has strides that reach further than memory can");
    std::int64_t row = 0;
    if (!axes_.empty() && !__builtin_mul_overflow(axis.stride_bytes, static_cast<std::int64_t>(axis.extent), &row) &&
        axes_.back().stride_bytes == row) {
      axes_.back() = {axes_.back().extent * axis.extent, axis.stride_bytes};
    } else {
      axes_.push_back(axis);
    }
  }
  highest_bytes_ += this->width_bytes();
}

bool Strided::may_overlap() const {
  std::vector<Axis> axes = axes_;
  std::ranges::sort(axes, {}, [](const Axis& axis) { return std::abs(axis.stride_bytes); });
  std::int64_t reach = width_bytes();
  for (const Axis& axis : axes) {
    const std::int64_t step = std::abs(axis.stride_bytes);
    if (step < reach) return true;
    reach += step * static_cast<std::int64_t>(axis.extent - 1);
  }
  return false;
}

template <typename Visit>
void Strided::for_each_run(std::uint64_t offset, std::uint64_t size_bytes, Visit visit) const {
  const Axis inner = axes_.empty() ? Axis{1, width_bytes()} : axes_.back();
  const std::size_t outer_axes = axes_.empty() ? 0 : axes_.size() - 1;
  std::uint64_t element = offset / width_bytes_;
  std::uint64_t skipped = offset % width_bytes_;
  while (size_bytes > 0) {
    const std::uint64_t column = element % inner.extent;
    std::uint64_t row = element / inner.extent;
    std::int64_t place = static_cast<std::int64_t>(column) * inner.stride_bytes;
    for (std::size_t i = outer_axes; i-- > 0; row /= axes_[i].extent)
      place += static_cast<std::int64_t>(row % axes_[i].extent) * axes_[i].stride_bytes;
    if (skipped > 0 || size_bytes < width_bytes_) {
      // A part of one element.
      const std::uint64_t part = std::min(size_bytes, width_bytes_ - skipped);
      visit(place + static_cast<std::int64_t>(skipped), std::uint64_t{0}, part);
      size_bytes -= part;
      element += (skipped + part) / width_bytes_;
      skipped = 0;
      continue;
    }
    const std::uint64_t count = std::min(inner.extent - column, size_bytes / width_bytes_);
    visit(place, count, count * width_bytes_);
    size_bytes -= count * width_bytes_;
    element += count;
  }
}

void Strided::gather(const std::uint8_t* first, std::uint64_t offset, std::span<std::uint8_t> to) const {
  const std::int64_t step = axes_.empty() ? width_bytes() : axes_.back().stride_bytes;
  std::uint8_t* out = to.data();
  for_each_run(offset, to.size(), [&](std::int64_t place, std::uint64_t elements, std::uint64_t bytes) {
    if (elements == 0 || step == width_bytes()) {
      std::memcpy(out, first + place, bytes);
    } else {
      copy_elements_of(width_bytes_, out, width_bytes(), first + place, step, elements);
    }
    out += bytes;
  });
}

void Strided::scatter(std::span<const std::uint8_t> from, std::uint64_t offset, std::uint8_t* first) const {
  const std::int64_t step = axes_.empty() ? width_bytes() : axes_.back().stride_bytes;
  const std::uint8_t* in = from.data();
  for_each_run(offset, from.size(), [&](std::int64_t place, std::uint64_t elements, std::uint64_t bytes) {
    if (elements == 0 || step == width_bytes()) {
      std::memcpy(first + place, in, bytes);
    } else {
      copy_elements_of(width_bytes_, first + place, step, in, width_bytes(), elements);
    }
    in += bytes;
  });
}

void Strided::for_each_dense(std::uint64_t offset, std::uint64_t size_bytes,
                             const std::function<void(std::int64_t, std::uint64_t)>& visit) const {
  const std::int64_t step = axes_.empty() ? width_bytes() : axes_.back().stride_bytes;
  for_each_run(offset, size_bytes, [&](std::int64_t place, std::uint64_t elements, std::uint64_t bytes) {
    if (elements == 0 || step == width_bytes()) return visit(place, bytes);
    for (std::uint64_t i = 0; i < elements; ++i) visit(place + static_cast<std::int64_t>(i) * step, width_bytes_);
  });
}

}  // namespace wdelta
