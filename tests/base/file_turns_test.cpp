// SPDX-License-Identifier: Apache-2.0
#include "base/file_turns.hpp"

#include "testing/execution.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <string>

namespace wdelta {

namespace {

constexpr std::uint64_t k_mib = std::uint64_t{1} << 20;

std::vector<std::uint64_t> files_of(std::size_t count, std::uint64_t size_bytes) {
  return std::vector<std::uint64_t>(count, size_bytes);
}

}  // namespace

TEST_CASE("each file has one turn, in the order of the files, whatever their sizes") {
  CAPTURE(testing::seed());
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> sizes(random() % 60);
    for (std::uint64_t& size : sizes) size = random() % (std::uint64_t{1} << (random() % 34));
    const std::size_t threads = 1 + random() % 20;
    const FileTurns turns = file_turns(sizes, threads, random() % 2 == 0 ? TurnsSpent::working : TurnsSpent::waiting);
    CHECK(std::ranges::is_sorted(turns.side_by_side));
    CHECK(std::ranges::is_sorted(turns.one_by_one));
    std::vector<std::size_t> all = turns.side_by_side;
    all.insert(all.end(), turns.one_by_one.begin(), turns.one_by_one.end());
    std::ranges::sort(all);
    REQUIRE(all.size() == sizes.size());
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);
  }
}

TEST_CASE("many small files are side by side, large ones and too few small ones are one by one") {
  CHECK(file_turns(files_of(100, 20 * k_mib), 2).side_by_side.size() == 100);
  CHECK(file_turns(files_of(4, 20 * k_mib), 2).side_by_side.size() == 4);
  CHECK(file_turns(files_of(100, 20 * k_mib), 1).one_by_one.size() == 100);
  CHECK(file_turns(files_of(100, 5000 * k_mib), 16).one_by_one.size() == 100);
  // Three files, or seventeen, would leave most of sixteen threads without work.
  CHECK(file_turns(files_of(3, 20 * k_mib), 16).one_by_one.size() == 3);
  CHECK(file_turns(files_of(17, 20 * k_mib), 16).one_by_one.size() == 17);

  std::vector<std::uint64_t> mixed = files_of(100, 20 * k_mib);
  mixed[30] = 5000 * k_mib;
  const FileTurns turns = file_turns(mixed, 2);
  CHECK(turns.side_by_side.size() == 99);
  CHECK(turns.one_by_one == std::vector<std::size_t>{30});
}

TEST_CASE("where turns are spent waiting, the very small are side by side however few they are") {
  CHECK(file_turns(files_of(3, 20 * k_mib), 16, TurnsSpent::waiting).side_by_side.size() == 3);
  CHECK(file_turns(files_of(3, 20 * k_mib), 1, TurnsSpent::waiting).one_by_one.size() == 3);
  CHECK(file_turns(files_of(100, 60 * k_mib), 2, TurnsSpent::waiting).side_by_side.size() == 100);
  // One thread would have as much to do as sixteen together.
  CHECK(file_turns(files_of(1, 400 * k_mib), 16, TurnsSpent::waiting).one_by_one.size() == 1);
  CHECK(file_turns(std::vector{20 * k_mib, 400 * k_mib, k_mib}, 16, TurnsSpent::waiting).one_by_one ==
        std::vector<std::size_t>{1});
}

TEST_CASE("work on files is done once each, on one thread side by side and on all of them otherwise") {
  std::vector<std::uint64_t> sizes = files_of(64, k_mib);
  sizes[7] = 500 * k_mib;
  const testing::SilentExecution execution(4);
  std::vector<std::atomic<unsigned>> threads(sizes.size());
  for_each_file(sizes, execution, [&](std::size_t index, const Execution& on) { threads[index] += on.threads; });
  for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(threads[i] == (i == 7 ? 4 : 1));
}

TEST_CASE("of files that fail the first one's exception is thrown") {
  for (const std::uint64_t size_bytes : {k_mib, 500 * k_mib}) {
    const testing::SilentExecution execution(4);
    const auto fail = [&](std::size_t index, const Execution&) {
      if (index >= 20) throw std::runtime_error(std::to_string(index));
    };
    CHECK_THROWS_WITH(for_each_file(files_of(64, size_bytes), execution, fail), "20");
  }
}

TEST_CASE("what is done ahead for a large file has ended before work on it begins, and its exceptions are lost") {
  const testing::SilentExecution execution(2);
  const FileTurns turns = file_turns(files_of(5, 500 * k_mib), 2);
  REQUIRE(turns.one_by_one.size() == 5);
  std::vector<std::string> done(5);
  const auto work = [&](std::size_t index, const Execution&) { done[index] += "worked on"; };
  for_each_file(turns, execution, work, [&](std::size_t index, const Execution&) {
    done[index] += "ahead, ";
    throw std::runtime_error("lost");
  });
  CHECK(done == std::vector<std::string>{"worked on", "ahead, worked on", "ahead, worked on", "ahead, worked on",
                                         "ahead, worked on"});
}

TEST_CASE("what is done ahead is asked to stop where work fails, and where all is to stop") {
  const FileTurns turns = file_turns(files_of(2, 500 * k_mib), 2);
  testing::RecordedProgress progress;
  for (const bool fails : {true, false}) {
    CAPTURE(fails);
    std::stop_source all;
    std::binary_semaphore begun(0), asked(0);
    const auto work = [&](std::size_t, const Execution&) {
      begun.acquire();
      if (fails) throw std::runtime_error("failed");
      all.request_stop();
    };
    bool was_asked = false;
    const auto ahead = [&](std::size_t, const Execution& on) {
      const std::stop_callback stopped(on.stop, [&] { asked.release(); });
      begun.release();
      was_asked = asked.try_acquire_for(std::chrono::seconds(20));
    };
    CHECK_THROWS(for_each_file(turns, Execution{2, &progress, all.get_token()}, work, ahead));
    CHECK(was_asked);
  }
}

}  // namespace wdelta
