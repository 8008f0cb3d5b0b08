// SPDX-License-Identifier: Apache-2.0
// Elements as kernels see them; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include "engine/element.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

/// 0, 1, 2 and so on, for vectors of bytes to begin with.
struct Counting {
  alignas(64) std::uint8_t bytes[64];
};
[[maybe_unused]] constexpr Counting k_counting = [] {
  Counting counting{};
  for (std::uint8_t i = 0; i < 64; ++i) counting.bytes[i] = i;
  return counting;
}();

/// How bits are ordered: as the number they are, or with a sign and a magnitude.
enum class Order { plain, sign_magnitude };

template <class T>
T load(const void* array, std::size_t i) {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(array) + i * sizeof(T), sizeof(T));
  return value;
}

template <class T>
void store(void* array, std::size_t i, T value) {
  __builtin_memcpy(static_cast<char*>(array) + i * sizeof(T), &value, sizeof(T));
}

/// Its own inverse.
template <class T, Order order>
T ordered(T x) {
  if constexpr (order == Order::plain) return x;
  const T sign = static_cast<T>(0 - (x >> (8 * sizeof(T) - 1)));
  return static_cast<T>(x ^ (sign >> 1));
}

/// The eight bits below the sign (with a 0 behind them where there are only seven), or the highest eight.
template <class T, Order order>
std::uint8_t context_of(T x) {
  const T shifted = order == Order::plain ? x : static_cast<T>(x << 1);
  return static_cast<std::uint8_t>(shifted >> (8 * sizeof(T) - 8));
}

/// Zigzag, as kernels.hpp says.
template <class T, Order order>
T step_between(T base, T next) {
  const T s = static_cast<T>(ordered<T, order>(next) - ordered<T, order>(base));
  const T sign = static_cast<T>(0 - (s >> (8 * sizeof(T) - 1)));
  return static_cast<T>((s << 1) ^ sign);
}

/// The class of each of 256 contexts: how many of `bounds` (ascending) are not above it.
[[maybe_unused]] void list_classes(const std::uint8_t* bounds, std::uint32_t bound_count, std::uint8_t* class_of) {
  for (std::uint32_t context = 0, k = 0; context < 256; ++context) {
    while (k < bound_count && bounds[k] <= context) ++k;
    class_of[context] = static_cast<std::uint8_t>(k);
  }
}

}  // namespace
}  // namespace wdelta
