// SPDX-License-Identifier: Apache-2.0
// Elements as kernels.hpp and class_map.hpp define them. engine/kernel_elements.hpp says the same for kernels of the
// processor, which each want a copy of their own; agents are named across objects.
#pragma once

#include "engine/cuda/device_code.hpp"
#include "engine/element.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta::cuda {

/// Its own inverse.
template <class T, ElementKind kind>
WDELTA_DEVICE T ordered(T bits) {
  if constexpr (kind == ElementKind::integer) return bits;
  const T sign = static_cast<T>(0 - (bits >> (8 * sizeof(T) - 1)));
  return static_cast<T>(bits ^ (sign >> 1));
}

template <class T, ElementKind kind>
WDELTA_DEVICE std::uint8_t context_of(T bits) {
  const T shifted = kind == ElementKind::floating ? static_cast<T>(bits << 1) : bits;
  return static_cast<std::uint8_t>(shifted >> (8 * sizeof(T) - 8));
}

template <class T, ElementKind kind>
WDELTA_DEVICE T step_between(T base, T next) {
  const T s = static_cast<T>(ordered<T, kind>(next) - ordered<T, kind>(base));
  const T sign = static_cast<T>(0 - (s >> (8 * sizeof(T) - 1)));
  return static_cast<T>(static_cast<T>(s << 1) ^ sign);
}

/// The element that lies `move` from `bits` in the order.
template <class T, ElementKind kind>
WDELTA_DEVICE T moved(T bits, T move) {
  return ordered<T, kind>(static_cast<T>(ordered<T, kind>(bits) + move));
}

/// The inverse of step_between().
template <class T, ElementKind kind>
WDELTA_DEVICE T stepped(T base, T step) {
  return moved<T, kind>(base, static_cast<T>((step >> 1) ^ static_cast<T>(0 - (step & 1))));
}

/// Element i of an array in global memory that need not be aligned. Devices read and write only what lies at a multiple
/// of its width.
template <class T>
WDELTA_DEVICE T load_element(const void* array, std::size_t i) {
  const auto* const at = static_cast<const unsigned char*>(array) + i * sizeof(T);
#if defined(__CUDACC__)
  __builtin_assume(__isGlobal(at));
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) == 0) return *reinterpret_cast<const T*>(at);
#endif
  T bits = 0;
  WDELTA_UNROLL
  for (std::size_t k = 0; k < sizeof(T); ++k) bits = static_cast<T>(bits | static_cast<T>(T{at[k]} << (8 * k)));
  return bits;
}

template <class T>
WDELTA_DEVICE void store_element(void* array, std::size_t i, T bits) {
  auto* const at = static_cast<unsigned char*>(array) + i * sizeof(T);
#if defined(__CUDACC__)
  __builtin_assume(__isGlobal(at));
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) == 0) {
    *reinterpret_cast<T*>(at) = bits;
    return;
  }
#endif
  WDELTA_UNROLL
  for (std::size_t k = 0; k < sizeof(T); ++k) at[k] = static_cast<unsigned char>(bits >> (8 * k));
}

}  // namespace wdelta::cuda
