// SPDX-License-Identifier: Apache-2.0
// Elements as kernels see them; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wdelta {
namespace {

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

}  // namespace
}  // namespace wdelta
