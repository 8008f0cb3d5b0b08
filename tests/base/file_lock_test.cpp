// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.hpp"

#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <optional>
#include <thread>
#include <vector>

namespace wdelta {

using testing::ScratchDirectory;

TEST_CASE("of those who lock a file only one at a time goes on") {
  ScratchDirectory scratch;
  std::atomic<int> inside = 0;
  std::atomic<int> overlaps = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const testing::SilentExecution execution;
      const FileLock lock(scratch / "lock", "waiting", execution);
      if (++inside != 1) ++overlaps;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --inside;
    });
  }
  threads.clear();
  CHECK(overlaps == 0);
}

TEST_CASE("whoever waits for a lock says so once, and stops when told to") {
  ScratchDirectory scratch;
  testing::RecordedProgress progress;
  std::optional<FileLock> first;
  first.emplace(scratch / "lock", "waiting", Execution{1, &progress, {}});
  CHECK(progress.notes().empty());

  std::stop_source stop;
  std::optional<Fault> fault;
  {
    const std::jthread second([&] {
      const Execution execution{1, &progress, stop.get_token()};
      fault = testing::fault_of([&] { FileLock(scratch / "lock", "waiting", execution); });
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(160));
    stop.request_stop();
  }
  CHECK(fault == Fault::interrupted);
  CHECK(progress.notes() == std::vector<std::string>{"waiting"});

  first.reset();
  CHECK(testing::fault_of([&] { FileLock(scratch / "lock", "waiting", Execution{1, &progress, {}}); }) == std::nullopt);
  CHECK(progress.notes().size() == 1);
  CHECK(testing::fault_of([&] {
          FileLock(scratch / "absent/lock", "waiting", Execution{1, &progress, {}});
        }).has_value());
}

TEST_CASE("a lock knows when its file was moved away, removed or replaced") {
  namespace fs = std::filesystem;
  const testing::SilentExecution execution;
  ScratchDirectory scratch;
  fs::create_directory(scratch / "d");
  const FileLock lock(scratch / "d/lock", "waiting", execution);
  CHECK(lock.is_held());
  CHECK(lock.is_in_place());
  fs::rename(scratch / "d", scratch / "moved");
  CHECK_FALSE(lock.is_in_place());
  fs::create_directory(scratch / "d");
  CHECK_FALSE(lock.is_in_place());
  const FileLock other(scratch / "d/lock", "waiting", execution);
  CHECK_FALSE(lock.is_in_place());
  CHECK(other.is_in_place());
  fs::remove_all(scratch / "d");
  fs::rename(scratch / "moved", scratch / "d");
  CHECK(lock.is_in_place());
  CHECK_FALSE(other.is_in_place());
}

}  // namespace wdelta
