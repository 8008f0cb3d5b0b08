// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/begin_thread.hpp"
#include "base/parallel.hpp"

#include <cstddef>
#include <cstdint>
#include <future>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

namespace wdelta {

/// How work on several files is divided among threads: many small files side by side, each on one thread; others in
/// lanes, which are gone through side by side, one file after the other, each lane with its part of the threads. A
/// small file has few segments for each thread: that they begin with each file anew, and wait at the end of it for the
/// last one, is what a second thread would bring (make bench ONLY=shards).
struct FileTurns {
  std::vector<std::size_t> side_by_side;
  std::vector<std::vector<std::size_t>> lanes;  ///< one with all threads, unless files are written; none of no files
};

/// What work on a file does beside using threads.
struct FileWork {
  bool waits_for_network = false;    ///< mostly, where it is small
  bool writes_file = false;          ///< most file systems let one thread at a time write to a file
  bool may_be_on_one_thread = true;  ///< so that small ones can be side by side
};

/// In the order of the files, and of each lane's files. Small ones are side by side where so no thread has much more to
/// do than the others; very small ones, too, where they wait for a network. Where files are written there are as many
/// lanes as let all of them be written soonest, for only so many threads find work on one of them.
FileTurns file_turns(std::span<const std::uint64_t> sizes_bytes, std::size_t threads, FileWork work = {});

/// Calls `work(index, execution)` for the files that are side by side.
template <typename Work>
void for_each_side_by_side(const FileTurns& turns, const Execution& execution, Work work) {
  const Execution one_thread = execution.on(1);
  parallel_for(turns.side_by_side.size(), execution,
               [&] { return [&](std::size_t turn) { work(turns.side_by_side[turn], one_thread); }; });
}

/// Calls `work_on(lane, execution)` for each lane, with its part of the threads. Once it fails for one, the others are
/// asked to stop; throws what it failed with.
template <typename WorkOn>
void for_each_lane(const FileTurns& turns, const Execution& execution, WorkOn work_on) {
  const std::size_t count = turns.lanes.size();
  if (count == 1) return work_on(turns.lanes.front(), execution);
  std::stop_source stop_lanes;
  const std::stop_callback with_all(execution.stop, [&] { stop_lanes.request_stop(); });
  std::mutex mutex;
  std::exception_ptr failure;  // the first one: others may be of lanes that were stopped
  const auto work_on_lane = [&](std::size_t index) {
    const bool has_one_more = index < execution.threads % count;
    Execution on = execution.on(static_cast<unsigned>(execution.threads / count) + (has_one_more ? 1 : 0));
    on.stop = stop_lanes.get_token();
    try {
      work_on(turns.lanes[index], on);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      stop_lanes.request_stop();
    }
  };
  parallel_for(count, execution.on(static_cast<unsigned>(count)), [&] { return work_on_lane; });
  if (failure) std::rethrow_exception(failure);
}

/// Calls `work(index, execution)` once for each file, with the execution that it is to use; for those that are side by
/// side, or in several lanes, from several threads at a time. Throws the first exception: by turn, but where there are
/// several lanes, whichever comes first.
template <typename Work>
void for_each_file(const FileTurns& turns, const Execution& execution, Work work) {
  for_each_side_by_side(turns, execution, work);
  for_each_lane(turns, execution, [&](const std::vector<std::size_t>& lane, const Execution& on) {
    for (const std::size_t index : lane) {
      on.check_stop();
      work(index, on);
    }
  });
}

/// The same; and while one in a lane is worked on, calls `ahead(index, execution)` for the one that follows it there,
/// on a thread of its own, and waits for its end. Not where the system has no thread for it. What it throws is lost. It
/// is asked to stop when work fails.
template <typename Work, typename Ahead>
void for_each_file(const FileTurns& turns, const Execution& execution, Work work, Ahead ahead) {
  for_each_side_by_side(turns, execution, work);
  for_each_lane(turns, execution, [&](const std::vector<std::size_t>& lane, const Execution& on) {
    for (std::size_t turn = 0; turn < lane.size(); ++turn) {
      on.check_stop();
      std::stop_source stop_ahead;
      const std::stop_callback with_all(on.stop, [&] { stop_ahead.request_stop(); });
      Execution meanwhile = on;
      meanwhile.stop = stop_ahead.get_token();
      std::future<void> next;
      if (turn + 1 < lane.size()) next = begin_aside([&, index = lane[turn + 1]] { ahead(index, meanwhile); });
      try {
        work(lane[turn], on);
      } catch (...) {
        stop_ahead.request_stop();
        throw;
      }
    }
  });
}

template <typename Work>
void for_each_file(std::span<const std::uint64_t> sizes_bytes, const Execution& execution, Work work) {
  for_each_file(file_turns(sizes_bytes, execution.threads), execution, work);
}

}  // namespace wdelta
