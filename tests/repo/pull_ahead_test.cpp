// SPDX-License-Identifier: Apache-2.0
// Pulls over a network of files that are written one after the other.
#include "repo/remote_run.hpp"
#include "testing/fault.hpp"

#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <mutex>
#include <set>

namespace wdelta {

using namespace testing;

TEST_CASE("over a network the next delta is fetched before the one that is being read has come to its end") {
  for (const auto way : {&pull, &pull_swap}) {
    RemoteRun run;
    REQUIRE(run.deltas().size() == RemoteRun::k_shards);
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::string> begun;
    bool in_time = true;
    run.before_read = [&](const std::string& key) {
      std::unique_lock lock(mutex);
      if (!key.starts_with("objects/")) return;
      begun.insert(key);
      changed.notify_all();
      // Nobody gets the first object's bytes until those of another are wanted.
      const std::chrono::seconds patience(in_time ? 20 : 0);
      in_time = changed.wait_for(lock, patience, [&] { return begun.size() > 1; }) && in_time;
    };
    CHECK(run.pull(1, SilentExecution(), way).written_files == RemoteRun::k_shards);
    CHECK(in_time);
    CHECK((files_below(run.directory()) == files_below(run.checkpoint(1))));
  }
}

TEST_CASE("a delta that is fetched ahead and lacks or has changed is told of where it is needed") {
  RemoteRun run;
  MemoryStore store(run.bucket());
  for (const std::string& key : run.deltas()) {
    CAPTURE(key);
    auto bytes = read_all(*store.get(key));
    store.remove(key);
    CHECK(fault_of([&] { run.pull(1, SilentExecution()); }) == Fault::corrupt);
    bytes[bytes.size() / 2] ^= 1;
    store.put(key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    CHECK(fault_of([&] { run.pull(1, SilentExecution()); }) == Fault::corrupt);
    bytes[bytes.size() / 2] ^= 1;
    store.put(key, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    run.pull(1, SilentExecution());
    REQUIRE((files_below(run.directory()) == files_below(run.checkpoint(1))));
    run.pull(0, SilentExecution());
  }
}

TEST_CASE("a pull that breaks off while the next delta is being fetched is finished by the next one") {
  const RemoteRun run;
  bool finished = false;
  for (std::uint64_t k = 0; !finished; k += 1 + k / 3) {
    CAPTURE(k);
    BreakingProgress progress(k);
    const auto fault = fault_of([&] { run.pull(1, Execution{2, &progress, {}}); });
    finished = !fault;
    CHECK(fault.value_or(Fault::interrupted) == Fault::interrupted);
    run.pull(0, SilentExecution(2));
    REQUIRE((files_below(run.directory()) == files_below(run.checkpoint(0))));
  }
}

}  // namespace wdelta
