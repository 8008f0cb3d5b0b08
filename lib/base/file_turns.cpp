// SPDX-License-Identifier: Apache-2.0
#include "base/file_turns.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace wdelta {

namespace {

// Eight segments for each thread: beyond this beginning and waiting is a small part of the work on a file.
constexpr std::uint64_t k_small_bytes_of_thread = std::uint64_t{32} << 20;

// One thread takes no longer for so much than a network takes to answer.
constexpr std::uint64_t k_short_bytes = std::uint64_t{32} << 20;

// Whether threads that each take the next file are done at about the same time: none has more than 9/8 of its share.
bool is_balanced(std::span<const std::uint64_t> sizes_bytes, std::size_t threads) {
  std::vector<std::uint64_t> loads(threads);
  for (const std::uint64_t size_bytes : sizes_bytes) *std::ranges::min_element(loads) += size_bytes;
  const std::uint64_t total = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
  return *std::ranges::max_element(loads) / 9 <= total / threads / 8;
}

}  // namespace

FileTurns file_turns(std::span<const std::uint64_t> sizes_bytes, std::size_t threads, TurnsSpent spent) {
  const auto divided_at = [&](std::uint64_t most_bytes) {
    FileTurns turns;
    for (std::size_t i = 0; i < sizes_bytes.size(); ++i) {
      const bool is_small = threads > 1 && sizes_bytes[i] <= most_bytes;
      (is_small ? turns.side_by_side : turns.one_by_one).push_back(i);
    }
    return turns;
  };
  FileTurns turns = divided_at(threads * k_small_bytes_of_thread);
  std::vector<std::uint64_t> small_bytes;
  for (const std::size_t i : turns.side_by_side) small_bytes.push_back(sizes_bytes[i]);
  if (small_bytes.empty() || is_balanced(small_bytes, threads)) return turns;
  return divided_at(spent == TurnsSpent::waiting ? k_short_bytes : 0);
}

}  // namespace wdelta
