// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/begin_thread.hpp"
#include "base/parallel.hpp"

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <stop_token>
#include <vector>

namespace wdelta {

/// How work on several files is divided among threads: many small files side by side, each on one thread; others one
/// after the other, each on all threads. A small file has few segments for each thread: that they begin with each file
/// anew, and wait at the end of it for the last one, is what a second thread would bring (make bench ONLY=shards).
struct FileTurns {
  std::vector<std::size_t> side_by_side;
  std::vector<std::size_t> one_by_one;
};

/// What work on a file mostly does: use a thread, or wait for a network.
enum class TurnsSpent { working, waiting };

/// In the order of the files. Small ones are side by side where so no thread has much more to do than the others; very
/// small ones, too, where turns are spent waiting.
FileTurns file_turns(std::span<const std::uint64_t> sizes_bytes, std::size_t threads,
                     TurnsSpent spent = TurnsSpent::working);

/// Calls `work(index, execution)` for the files that are side by side.
template <typename Work>
void for_each_side_by_side(const FileTurns& turns, const Execution& execution, Work work) {
  const Execution one_thread = execution.on(1);
  parallel_for(turns.side_by_side.size(), execution,
               [&] { return [&](std::size_t turn) { work(turns.side_by_side[turn], one_thread); }; });
}

/// Calls `work(index, execution)` once for each file, with the execution that it is to use; for those that are side by
/// side from several threads at a time. Throws the first exception, by turn.
template <typename Work>
void for_each_file(const FileTurns& turns, const Execution& execution, Work work) {
  for_each_side_by_side(turns, execution, work);
  for (const std::size_t index : turns.one_by_one) {
    execution.check_stop();
    work(index, execution);
  }
}

/// The same; and while one that has all threads is worked on, calls `ahead(index, execution)` for the one that follows
/// it, on a thread of its own, and waits for its end. Not where the system has no thread for it. What it throws is
/// lost. It is asked to stop when work fails.
template <typename Work, typename Ahead>
void for_each_file(const FileTurns& turns, const Execution& execution, Work work, Ahead ahead) {
  for_each_side_by_side(turns, execution, work);
  for (std::size_t turn = 0; turn < turns.one_by_one.size(); ++turn) {
    execution.check_stop();
    std::stop_source stop_ahead;
    const std::stop_callback with_all(execution.stop, [&] { stop_ahead.request_stop(); });
    Execution meanwhile = execution;
    meanwhile.stop = stop_ahead.get_token();
    std::future<void> next;
    if (turn + 1 < turns.one_by_one.size())
      next = begin_aside([&, index = turns.one_by_one[turn + 1]] { ahead(index, meanwhile); });
    try {
      work(turns.one_by_one[turn], execution);
    } catch (...) {
      stop_ahead.request_stop();
      throw;
    }
  }
}

template <typename Work>
void for_each_file(std::span<const std::uint64_t> sizes_bytes, const Execution& execution, Work work) {
  for_each_file(file_turns(sizes_bytes, execution.threads), execution, work);
}

}  // namespace wdelta
