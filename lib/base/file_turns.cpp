// SPDX-License-Identifier: Apache-2.0
#include "base/file_turns.hpp"

#include <algorithm>
#include <numeric>

namespace wdelta {

namespace {

// Eight segments for each thread: beyond this beginning and waiting is a small part of the work on a file.
constexpr std::uint64_t k_small_bytes_of_thread = std::uint64_t{32} << 20;

// Whether threads that each take the next file are done at about the same time: none has more than 9/8 of its share.
bool is_balanced(std::span<const std::uint64_t> sizes_bytes, std::size_t threads) {
  std::vector<std::uint64_t> loads(threads);
  for (const std::uint64_t size_bytes : sizes_bytes) *std::ranges::min_element(loads) += size_bytes;
  const std::uint64_t total = std::accumulate(loads.begin(), loads.end(), std::uint64_t{0});
  return *std::ranges::max_element(loads) / 9 <= total / threads / 8;
}

}  // namespace

FileTurns file_turns(std::span<const std::uint64_t> sizes_bytes, std::size_t threads) {
  FileTurns turns;
  std::vector<std::uint64_t> small_bytes;
  for (std::size_t i = 0; i < sizes_bytes.size(); ++i) {
    const bool is_small = threads > 1 && sizes_bytes[i] <= threads * k_small_bytes_of_thread;
    (is_small ? turns.side_by_side : turns.one_by_one).push_back(i);
    if (is_small) small_bytes.push_back(sizes_bytes[i]);
  }
  if (small_bytes.empty() || is_balanced(small_bytes, threads)) return turns;
  turns.side_by_side.clear();
  turns.one_by_one.resize(sizes_bytes.size());
  std::iota(turns.one_by_one.begin(), turns.one_by_one.end(), std::size_t{0});
  return turns;
}

}  // namespace wdelta
