// SPDX-License-Identifier: Apache-2.0
// Pulls over a network of files that are written one after the other.
#include "repo/world.hpp"
#include "testing/fault.hpp"
#include "testing/memory_store.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <iterator>
#include <mutex>
#include <set>

namespace wdelta {

using namespace testing;

namespace {

constexpr int k_shards = 4;

/// Shards whose deltas are too large to share an object.
void write_shards(const fs::path& directory, int step) {
  for (int shard = 0; shard < k_shards; ++shard) {
    std::mt19937_64 random(static_cast<unsigned>(shard));
    TestTensor tensor = random_tensor("t", {"F32", 32}, 700'000, random);
    for (std::size_t i = 0; step > 0 && i < tensor.bytes.size(); i += 4) {
      tensor.bytes[i] ^= static_cast<std::uint8_t>(random());
      tensor.bytes[i + 1] ^= static_cast<std::uint8_t>(random());
    }
    put_file(directory / ("model-" + std::to_string(shard) + ".safetensors"), safetensors_file({tensor}));
  }
}

/// Tells the store's bucket of each read.
class WatchedReader final : public ByteReader {
 public:
  using Before = std::function<void(const std::string& key)>;
  WatchedReader(std::shared_ptr<const ByteReader> whole, Before before)
      : whole_(std::move(whole)), before_(std::move(before)) {}

  std::uint64_t size_bytes() const override { return whole_->size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    before_(name());
    whole_->read_at(offset, bytes);
  }
  const std::string& name() const override { return whole_->name(); }

 private:
  std::shared_ptr<const ByteReader> whole_;
  Before before_;
};

/// A repository behind a network, and a directory that holds its first commit of two.
class RemoteRun {
 public:
  RemoteRun() {
    MemoryTraits traits;
    traits.is_remote = true;
    traits.seen_through = [this](std::shared_ptr<const ByteReader> found) {
      return std::make_shared<WatchedReader>(std::move(found), [this](const std::string& key) { before_read(key); });
    };
    bucket_ = std::make_shared<MemoryBucket>(traits);
    for (int step = 0; step < 2; ++step) {
      write_shards(checkpoint(step), step);
      Repository to = repository();
      PushOptions options;
      options.state_directory = scratch_ / "host";
      options.anchor = step == 0 ? AnchorChoice::now : AnchorChoice::never;
      CommitDraft draft;
      draft.step = step;
      const std::set<std::string> before = objects();
      push(to, Checkpoint::open(checkpoint(step)), draft, options, best_engine(), SilentExecution());
      deltas_.clear();
      std::ranges::set_difference(objects(), before, std::back_inserter(deltas_));
    }
    pull(0, SilentExecution());
  }

  Repository repository() const { return Repository::open_or_create(std::make_unique<MemoryStore>(bucket_)); }
  fs::path checkpoint(int step) const { return scratch_ / ("step-" + std::to_string(step)); }
  fs::path directory() const { return scratch_ / "out"; }
  PullReport pull(int step, const Execution& execution, decltype(pull_swap) way = wdelta::pull) const {
    const Repository from = repository();
    return way(from, from.commit(from.resolve("step:" + std::to_string(step))), directory(), LocalChanges::refuse,
               best_engine(), execution);
  }
  /// The objects of the second commit, one delta in each.
  const std::vector<std::string>& deltas() const { return deltas_; }
  std::shared_ptr<MemoryBucket> bucket() const { return bucket_; }

  std::function<void(const std::string& key)> before_read = [](const std::string&) {};

 private:
  std::set<std::string> objects() const {
    std::set<std::string> keys;
    for (const Store::Listed& listed : MemoryStore(bucket_).list("objects/")) keys.insert(listed.key);
    return keys;
  }

  ScratchDirectory scratch_;
  std::shared_ptr<MemoryBucket> bucket_;
  std::vector<std::string> deltas_;
};

}  // namespace

TEST_CASE("over a network the next delta is fetched before the one that is being read has come to its end") {
  for (const auto way : {&pull, &pull_swap}) {
    RemoteRun run;
    REQUIRE(run.deltas().size() == k_shards);
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
    CHECK(run.pull(1, SilentExecution(), way).written_files == k_shards);
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
