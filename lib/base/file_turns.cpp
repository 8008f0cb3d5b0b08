// SPDX-License-Identifier: Apache-2.0
#include "base/file_turns.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

// Eight segments for each thread: beyond this beginning and waiting is a small part of the work on a file.
constexpr std::uint64_t k_small_bytes_of_thread = std::uint64_t{32} << 20;

// One thread takes no longer for so much than a network takes to answer.
constexpr std::uint64_t k_short_bytes = std::uint64_t{32} << 20;

// So many threads make what a file system takes for one file; more of them wait for each other.
constexpr std::size_t k_threads_of_written_file = 2;

// Files in the order given, each to whoever has least so far.
struct Division {
  std::vector<std::vector<std::size_t>> parts;
  std::uint64_t largest_bytes = 0;
};

Division divided(std::span<const std::size_t> files, std::span<const std::uint64_t> sizes_bytes, std::size_t count) {
  using Load = std::pair<std::uint64_t, std::size_t>;  // bytes, part
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (std::size_t part = 0; part < count; ++part) loads.emplace(0, part);
  Division division;
  division.parts.resize(count);
  for (const std::size_t file : files) {
    auto [bytes, part] = loads.top();
    loads.pop();
    bytes += sizes_bytes[file];
    division.parts[part].push_back(file);
    division.largest_bytes = std::max(division.largest_bytes, bytes);
    loads.emplace(bytes, part);
  }
  return division;
}

// Whether threads that each take the next file are done at about the same time: none has more than 9/8 of its share.
bool is_balanced(std::span<const std::size_t> files, std::span<const std::uint64_t> sizes_bytes, std::size_t threads) {
  std::uint64_t total = 0;
  for (const std::size_t file : files) total += sizes_bytes[file];
  return divided(files, sizes_bytes, threads).largest_bytes / 9 <= total / threads / 8;
}

std::vector<std::vector<std::size_t>> lanes_of(std::span<const std::size_t> files,
                                               std::span<const std::uint64_t> sizes_bytes, std::size_t threads,
                                               bool writes_files) {
  if (files.empty()) return {};
  const std::size_t most_lanes = writes_files ? std::min(threads, files.size()) : 1;
  Division best;
  std::uint64_t best_time = UINT64_MAX;
  for (std::size_t count = 1; count <= most_lanes; ++count) {
    Division division = divided(files, sizes_bytes, count);
    const std::size_t of_lane = writes_files ? std::min(threads / count, k_threads_of_written_file) : threads;
    const std::uint64_t time = division.largest_bytes / of_lane;
    if (time >= best_time) continue;
    best = std::move(division);
    best_time = time;
  }
  return best.parts;
}

}  // namespace

FileTurns file_turns(std::span<const std::uint64_t> sizes_bytes, std::size_t threads, FileWork work) {
  std::vector<std::size_t> others;
  FileTurns turns;
  const auto divide_at = [&](std::uint64_t most_bytes) {
    others.clear();
    turns.side_by_side.clear();
    for (std::size_t i = 0; i < sizes_bytes.size(); ++i) {
      const bool is_small = work.may_be_on_one_thread && threads > 1 && sizes_bytes[i] <= most_bytes;
      (is_small ? turns.side_by_side : others).push_back(i);
    }
  };
  divide_at(threads * k_small_bytes_of_thread);
  if (!is_balanced(turns.side_by_side, sizes_bytes, threads)) divide_at(work.waits_for_network ? k_short_bytes : 0);
  turns.lanes = lanes_of(others, sizes_bytes, threads, work.writes_file);
  return turns;
}

}  // namespace wdelta
