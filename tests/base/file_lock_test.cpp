// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.hpp"

#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <doctest/doctest.h>
#include <functional>
#include <optional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace wdelta {

using testing::ScratchDirectory;

namespace {

bool is_free(const std::filesystem::path& path) {
  testing::RecordedProgress progress;
  std::stop_source stopped;
  stopped.request_stop();
  return !testing::fault_of([&] { FileLock(path, "waiting", Execution{1, &progress, stopped.get_token()}); });
}

/// A child that does `work` and then lives until it is destroyed.
class Child {
 public:
  explicit Child(const std::function<void()>& work) {
    int until[2];
    int done[2];
    REQUIRE(::pipe(until) == 0);
    REQUIRE(::pipe(done) == 0);
    char byte = 0;
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ == 0) {
      ::close(until[1]);
      ::close(done[0]);
      work();
      ::close(done[1]);
      ::_exit(::read(until[0], &byte, 1) == 0 ? 0 : 1);
    }
    ::close(until[0]);
    ::close(done[1]);
    end_ = until[1];
    CHECK(::read(done[0], &byte, 1) == 0);
    ::close(done[0]);
  }
  ~Child() {
    ::close(end_);
    ::waitpid(id_, nullptr, 0);
  }

 private:
  pid_t id_;
  int end_ = -1;
};

}  // namespace

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

TEST_CASE("a lock that was let go is free, though a child was forked while it was held") {
  const testing::SilentExecution execution;
  ScratchDirectory scratch;
  std::optional<FileLock> lock(std::in_place, scratch / "lock", "waiting", execution);
  const Child child([] {});
  CHECK_FALSE(is_free(scratch / "lock"));
  lock.reset();
  CHECK(is_free(scratch / "lock"));

  // The same of one that was moved, and of the one that it takes the place of.
  FileLock first(scratch / "first", "waiting", execution);
  std::optional<FileLock> second(std::in_place, scratch / "second", "waiting", execution);
  const Child another([] {});
  first = std::move(*second);
  CHECK(is_free(scratch / "first"));
  CHECK_FALSE(is_free(scratch / "second"));
  second.reset();
  CHECK_FALSE(is_free(scratch / "second"));
  std::optional<FileLock> third(std::move(first));
  CHECK_FALSE(is_free(scratch / "second"));
  third.reset();
  CHECK(is_free(scratch / "second"));
}

TEST_CASE("a child that was forked while a lock was held does not let go of it") {
  const testing::SilentExecution execution;
  ScratchDirectory scratch;
  std::optional<FileLock> lock(std::in_place, scratch / "lock", "waiting", execution);
  const Child child([&] { lock.reset(); });
  CHECK_FALSE(is_free(scratch / "lock"));
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
