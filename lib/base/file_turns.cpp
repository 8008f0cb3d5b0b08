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

// How many lanes are best is found among the most promising numbers: so many, or more where there are few files. Of
// many files all of these take about as long.
constexpr std::size_t k_least_tries = 8;
constexpr std::size_t k_divided_files = std::size_t{1} << 22;

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

// What divided() leaves no part below. To divide a hundred thousand files among each number of a thousand threads takes
// seconds; most of these numbers can be seen to be worse than another one.
class LeastLoads {
 public:
  LeastLoads(std::span<const std::size_t> files, std::span<const std::uint64_t> sizes_bytes) {
    for (const std::size_t file : files) {
      const std::uint64_t size_bytes = sizes_bytes[file];
      if (size_bytes > largest_bytes_) {
        largest_before_ = largest_bytes_;
        before_bytes_ = total_bytes_;
        largest_bytes_ = size_bytes;
      }
      total_bytes_ += size_bytes;
    }
  }

  /// Of the largest of so many parts. No two of them differ by more than the largest file so far, so that each has
  /// about its share when the largest comes to one.
  std::uint64_t of(std::size_t count) const {
    const std::uint64_t share = before_bytes_ / count;
    const std::uint64_t beneath = share > largest_before_ ? share - largest_before_ : 0;
    return std::max((total_bytes_ + count - 1) / count, beneath + largest_bytes_);
  }

 private:
  std::uint64_t total_bytes_ = 0;
  std::uint64_t largest_bytes_ = 0;
  std::uint64_t before_bytes_ = 0;    // of the files before the largest
  std::uint64_t largest_before_ = 0;  // of these
};

std::vector<std::vector<std::size_t>> lanes_of(std::span<const std::size_t> files,
                                               std::span<const std::uint64_t> sizes_bytes, std::size_t threads,
                                               bool writes_files) {
  if (files.empty()) return {};
  if (!writes_files) return divided(files, sizes_bytes, 1).parts;
  const LeastLoads least(files, sizes_bytes);
  using Lanes = std::pair<std::uint64_t, std::size_t>;  // the least time that so many can take, count
  const auto time_of = [&](std::uint64_t largest_bytes, std::size_t count) {
    return largest_bytes / std::min(threads / count, k_threads_of_written_file);
  };
  std::vector<Lanes> promising;
  for (std::size_t count = 1; count <= std::min(threads, files.size()); ++count)
    promising.emplace_back(time_of(least.of(count), count), count);
  std::ranges::sort(promising);
  Division best;
  Lanes best_lanes{UINT64_MAX, 0};
  std::size_t tries_left = std::max<std::size_t>(k_least_tries, k_divided_files / files.size());
  for (const auto& [least_time, count] : promising) {
    if (Lanes(least_time, count) > best_lanes || tries_left-- == 0) break;
    Division division = divided(files, sizes_bytes, count);
    const Lanes lanes{time_of(division.largest_bytes, count), count};
    if (lanes > best_lanes) continue;
    best = std::move(division);
    best_lanes = lanes;
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
