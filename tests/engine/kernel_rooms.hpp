// SPDX-License-Identifier: Apache-2.0
// What the tests of kernels share: every engine, every length, and numbers as bytes for guarded memory.
#pragma once

#include "engine/engine.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta::testing {

template <class Visit>
void each_usable_engine(Visit visit) {
  for (const Engine& engine : engines()) {
    if (engine.usable()) visit(engine);
  }
}

constexpr std::size_t padded(std::size_t count) { return (count + 63) / 64 * 64; }

/// A place for some elements of a wider type; only the span is checked, alignment is not promised.
template <class T>
T* typed(std::span<std::uint8_t> bytes) {
  return reinterpret_cast<T*>(bytes.data());
}

template <class T>
std::span<const std::uint8_t> bytes_of(const T& numbers) {
  const std::span all(numbers);
  return {reinterpret_cast<const std::uint8_t*>(all.data()), all.size_bytes()};
}

inline std::vector<std::size_t> counts_of_elements() {
  std::vector<std::size_t> counts;
  for (std::size_t count = 1; count <= 200; ++count) counts.push_back(count);
  counts.insert(counts.end(), {1023, 1024, 1025, 4097, 65535, 65536});
  return counts;
}

}  // namespace wdelta::testing
