// SPDX-License-Identifier: Apache-2.0
// A repository behind a network, whose requests can be watched.
#pragma once

#include "repo/world.hpp"
#include "testing/memory_store.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace wdelta::testing {

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
  static constexpr int k_shards = 4;

  RemoteRun() {
    MemoryTraits traits;
    traits.is_remote = true;
    traits.spooling_path = scratch_ / "cache";
    traits.seen_through = [this](std::shared_ptr<const ByteReader> found) {
      on_get(found->name());
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

  /// One at a time, with what the store was asked for and has.
  std::function<void(const std::string& key)> on_get = [](const std::string&) {};
  std::function<void(const std::string& key)> before_read = [](const std::string&) {};

 private:
  // Of sizes whose deltas are too large to share an object.
  static void write_shards(const fs::path& directory, int step) {
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
  std::set<std::string> objects() const {
    std::set<std::string> keys;
    for (const Store::Listed& listed : MemoryStore(bucket_).list("objects/")) keys.insert(listed.key);
    return keys;
  }

  ScratchDirectory scratch_;
  std::shared_ptr<MemoryBucket> bucket_;
  std::vector<std::string> deltas_;
};

}  // namespace wdelta::testing
