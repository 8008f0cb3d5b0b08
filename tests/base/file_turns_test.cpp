// SPDX-License-Identifier: Apache-2.0
#include "base/file_turns.hpp"

#include "testing/execution.hpp"
#include "testing/fault.hpp"
#include "testing/random.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <latch>
#include <numeric>
#include <random>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

namespace wdelta {

namespace {

constexpr std::uint64_t k_mib = std::uint64_t{1} << 20;

std::vector<std::uint64_t> files_of(std::size_t count, std::uint64_t size_bytes) {
  return std::vector<std::uint64_t>(count, size_bytes);
}

constexpr FileWork k_written{.writes_file = true};

/// Whether so many threads come here at a time.
bool meet(std::latch& latch) {
  latch.count_down();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!latch.try_wait() && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  return latch.try_wait();
}

/// The files that are not side by side.
std::vector<std::size_t> one_by_one(const FileTurns& turns) {
  REQUIRE(turns.lanes.size() == 1);
  return turns.lanes.front();
}

}  // namespace

TEST_CASE("each file has one turn, in the order of the files, whatever their sizes") {
  CAPTURE(testing::seed());
  std::mt19937_64 random(testing::seed());
  const auto is_so = [&] { return random() % 2 == 0; };
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> sizes(random() % 60);
    for (std::uint64_t& size : sizes) size = random() % (std::uint64_t{1} << (random() % 34));
    const std::size_t threads = 1 + random() % 20;
    const FileWork work{.waits_for_network = is_so(), .writes_file = is_so(), .may_be_on_one_thread = is_so()};
    const FileTurns turns = file_turns(sizes, threads, work);
    CHECK(std::ranges::is_sorted(turns.side_by_side));
    CHECK((work.may_be_on_one_thread || turns.side_by_side.empty()));
    CHECK(turns.lanes.size() <= (work.writes_file ? threads : 1));
    std::vector<std::size_t> all = turns.side_by_side;
    for (const auto& lane : turns.lanes) {
      CHECK(std::ranges::is_sorted(lane));
      CHECK(!lane.empty());
      all.insert(all.end(), lane.begin(), lane.end());
    }
    std::ranges::sort(all);
    REQUIRE(all.size() == sizes.size());
    for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == i);
  }
}

TEST_CASE("many small files are side by side, large ones and too few small ones are one by one") {
  CHECK(file_turns(files_of(100, 20 * k_mib), 2).side_by_side.size() == 100);
  CHECK(file_turns(files_of(4, 20 * k_mib), 2).side_by_side.size() == 4);
  CHECK(one_by_one(file_turns(files_of(100, 20 * k_mib), 1)).size() == 100);
  CHECK(one_by_one(file_turns(files_of(100, 5000 * k_mib), 16)).size() == 100);
  // Three files, or seventeen, would leave most of sixteen threads without work.
  CHECK(one_by_one(file_turns(files_of(3, 20 * k_mib), 16)).size() == 3);
  CHECK(one_by_one(file_turns(files_of(17, 20 * k_mib), 16)).size() == 17);

  std::vector<std::uint64_t> mixed = files_of(100, 20 * k_mib);
  mixed[30] = 5000 * k_mib;
  const FileTurns turns = file_turns(mixed, 2);
  CHECK(turns.side_by_side.size() == 99);
  CHECK(one_by_one(turns) == std::vector<std::size_t>{30});
}

TEST_CASE("where files wait for a network, the very small are side by side however few they are") {
  constexpr FileWork k_waiting{.waits_for_network = true};
  CHECK(file_turns(files_of(3, 20 * k_mib), 16, k_waiting).side_by_side.size() == 3);
  CHECK(one_by_one(file_turns(files_of(3, 20 * k_mib), 1, k_waiting)).size() == 3);
  CHECK(file_turns(files_of(100, 60 * k_mib), 2, k_waiting).side_by_side.size() == 100);
  // One thread would have as much to do as sixteen together.
  CHECK(one_by_one(file_turns(files_of(1, 400 * k_mib), 16, k_waiting)).size() == 1);
  CHECK(one_by_one(file_turns(std::vector{20 * k_mib, 400 * k_mib, k_mib}, 16, k_waiting)) ==
        std::vector<std::size_t>{1});
}

TEST_CASE("large files that are written are so many at a time that no thread is without work on one") {
  const auto lanes = [](std::size_t count, std::size_t threads) {
    return file_turns(files_of(count, 7000 * k_mib), threads, k_written).lanes.size();
  };
  CHECK(lanes(1, 16) == 1);
  CHECK(lanes(3, 16) == 3);
  CHECK(lanes(8, 16) == 8);
  CHECK(lanes(800, 16) == 8);
  CHECK(lanes(768, 192) == 96);
  // Two threads have enough to do on one.
  CHECK(lanes(8, 2) == 1);
  CHECK(lanes(8, 1) == 1);
  // In four lanes one would have a second file when the others are done; in three, two have, and more threads each.
  CHECK(lanes(5, 10) == 5);
  CHECK(lanes(5, 8) == 3);
  // The large one takes as long as all others together.
  std::vector<std::uint64_t> uneven = files_of(5, 1000 * k_mib);
  uneven[1] = 4000 * k_mib;
  CHECK(file_turns(uneven, 4, k_written).lanes == std::vector<std::vector<std::size_t>>{{0, 2, 3, 4}, {1}});
}

TEST_CASE("of all numbers of lanes the least is taken of those that take the shortest time") {
  CAPTURE(testing::seed());
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> sizes(1 + random() % 60);
    for (std::uint64_t& size : sizes) size = random() % (std::uint64_t{1} << (random() % 34));
    if (round % 4 == 0) sizes[random() % sizes.size()] *= 100;
    const std::size_t threads = 1 + random() % 80;
    std::uint64_t shortest = UINT64_MAX;
    std::vector<std::uint64_t> expected;  // what the lanes have to do
    for (std::size_t count = 1; count <= std::min(threads, sizes.size()); ++count) {
      std::vector<std::uint64_t> loads(count);
      for (const std::uint64_t size : sizes) *std::ranges::min_element(loads) += size;
      const std::uint64_t time = std::ranges::max(loads) / std::min<std::size_t>(threads / count, 2);
      if (time >= shortest) continue;
      shortest = time;
      expected = loads;
    }
    const FileTurns turns = file_turns(sizes, threads, {.writes_file = true, .may_be_on_one_thread = false});
    std::vector<std::uint64_t> found(turns.lanes.size());
    for (std::size_t lane = 0; lane < found.size(); ++lane) {
      for (const std::size_t file : turns.lanes[lane]) found[lane] += sizes[file];
    }
    CHECK(found == expected);
  }
}

TEST_CASE("very many files are divided among very many threads without trying each number of lanes") {
  std::vector<std::uint64_t> sizes = files_of(50 * 4096, k_mib);
  CHECK(file_turns(sizes, 8192, {.writes_file = true, .may_be_on_one_thread = false}).lanes.size() == 4096);
  sizes.push_back(8192 * k_mib);  // and one that most of the time goes to, behind them all
  const auto lanes = file_turns(sizes, 8192, {.writes_file = true, .may_be_on_one_thread = false}).lanes;
  CHECK(lanes.size() > 4000);
  CHECK(lanes.size() <= 4096);
}

TEST_CASE("work on files is done once each, on one thread side by side and on all of them otherwise") {
  std::vector<std::uint64_t> sizes = files_of(64, k_mib);
  sizes[7] = 500 * k_mib;
  const testing::SilentExecution execution(4);
  std::vector<std::atomic<unsigned>> threads(sizes.size());
  for_each_file(sizes, execution, [&](std::size_t index, const Execution& on) { threads[index] += on.threads; });
  for (std::size_t i = 0; i < sizes.size(); ++i) CHECK(threads[i] == (i == 7 ? 4 : 1));
}

TEST_CASE("lanes go on at a time, and have all threads together") {
  const testing::SilentExecution execution(17);
  const FileTurns turns = file_turns(files_of(8, 5000 * k_mib), 17, k_written);
  REQUIRE(turns.lanes.size() == 8);
  std::atomic<unsigned> threads = 0;
  std::latch all_begun(8);
  for_each_file(turns, execution, [&](std::size_t, const Execution& on) {
    threads += on.threads;
    CHECK(meet(all_begun));
  });
  CHECK(threads == 17);
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

TEST_CASE("where one lane fails the others stop, and what it failed with is thrown") {
  const testing::SilentExecution execution(4);
  const FileTurns turns = file_turns(files_of(8, 5000 * k_mib), 4, k_written);
  REQUIRE(turns.lanes.size() == 2);
  const std::size_t failing = turns.lanes.back().front();
  std::vector<std::atomic<int>> begun(8);
  std::binary_semaphore asked(0);
  const auto work = [&](std::size_t index, const Execution& on) {
    ++begun[index];
    if (index == failing) throw std::runtime_error("failed");
    const std::stop_callback stopped(on.stop, [&] { asked.release(); });
    CHECK(asked.try_acquire_for(std::chrono::seconds(20)));
    on.check_stop();
  };
  const auto nothing = [](std::size_t, const Execution&) {};
  for (const bool is_ahead : {false, true}) {
    for (std::atomic<int>& file : begun) file = 0;
    CHECK_THROWS_WITH(is_ahead ? for_each_file(turns, execution, work, nothing) : for_each_file(turns, execution, work),
                      "failed");
    CHECK(std::accumulate(begun.begin(), begun.end(), 0) <= 2);
    CHECK(begun[failing] == 1);
  }
}

TEST_CASE("lanes stop where all is to stop") {
  testing::RecordedProgress progress;
  std::stop_source all;
  const FileTurns turns = file_turns(files_of(8, 5000 * k_mib), 4, k_written);
  REQUIRE(turns.lanes.size() == 2);
  std::latch both_begun(2);
  std::atomic<int> begun = 0;
  const auto work = [&](std::size_t, const Execution& on) {
    ++begun;
    CHECK(meet(both_begun));
    all.request_stop();
    std::binary_semaphore asked(0);
    const std::stop_callback stopped(on.stop, [&] { asked.release(); });
    CHECK(asked.try_acquire_for(std::chrono::seconds(20)));  // the other one's call may still be on its way here
    on.check_stop();
  };
  CHECK(testing::fault_of([&] {
          for_each_file(turns, Execution{4, &progress, all.get_token()}, work);
        }) == Fault::interrupted);
  CHECK(begun == 2);
}

TEST_CASE("what is done ahead for a large file has ended before work on it begins, and its exceptions are lost") {
  for (const std::size_t lanes : {1U, 2U}) {
    const testing::SilentExecution execution(4);
    const FileTurns turns = file_turns(files_of(6, 5000 * k_mib), 4, {.writes_file = lanes > 1});
    REQUIRE(turns.lanes.size() == lanes);
    std::vector<std::string> done(6);
    const auto work = [&](std::size_t index, const Execution&) { done[index] += "worked on"; };
    for_each_file(turns, execution, work, [&](std::size_t index, const Execution&) {
      done[index] += "ahead, ";
      throw std::runtime_error("lost");
    });
    for (const auto& lane : turns.lanes) {
      for (const std::size_t index : lane)
        CHECK(done[index] == (index == lane.front() ? "worked on" : "ahead, worked on"));
    }
  }
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
