// SPDX-License-Identifier: Apache-2.0
// The streams of a sparse block (wdelta-delta.5, "Blocks"), between positions and steps on one side and bytes on the
// other. No engine is asked for these: they touch changes only, not elements.
#pragma once

#include "engine/element.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {

/// Bytes that the decoder may read behind the streams, so that it can load an escape before it knows there is one.
inline constexpr std::size_t k_sparse_slack_bytes = 8;

/// The least and the most bytes that the streams of so many changes take.
constexpr std::size_t sparse_least_bytes(std::uint32_t changes) { return 2 * std::size_t{changes}; }
constexpr std::size_t sparse_most_bytes(std::uint32_t changes, std::uint8_t width_bytes) {
  return (4 + std::size_t{width_bytes}) * changes;
}

/// Writes the streams of `changes` positions (ascending) and steps (not zero, `width_bytes` each) and returns their
/// length. `streams` has room for sparse_most_bytes() and k_sparse_slack_bytes.
std::size_t join_sparse(const std::uint16_t* positions, const void* steps, std::uint32_t changes,
                        std::uint8_t width_bytes, std::uint8_t* streams);

/// The inverse. Returns what is wrong with the streams, or null. Writes `changes` positions and steps whatever the
/// bytes, and reads at most k_sparse_slack_bytes behind them. `size_bytes` is at least sparse_least_bytes().
const char* part_sparse(const std::uint8_t* streams, std::size_t size_bytes, std::uint32_t changes,
                        std::uint8_t width_bytes, std::uint32_t element_count, std::uint16_t* positions, void* steps);

/// The largest of `count` steps, 0 if there are none.
std::uint64_t largest_step(const void* steps, std::uint32_t count, std::uint8_t width_bytes);

/// How many of `count` elements are not all zero bits, and the largest of their steps from there.
struct StepsFromZeros {
  std::uint32_t changes = 0;
  std::uint64_t largest = 0;
};
StepsFromZeros steps_from_zeros(const void* elements, std::uint32_t count, ElementType type);

std::size_t count_zeros(const std::uint8_t* bytes, std::size_t size_bytes);

}  // namespace wdelta
