// SPDX-License-Identifier: Apache-2.0
// A store in memory, with the faults that real ones have.
#pragma once

#include "base/error.hpp"
#include "base/moment.hpp"
#include "base/output_file.hpp"
#include "base/path.hpp"
#include "store/store.hpp"
#include "testing/scratch.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace wdelta::testing {

/// What becomes of a create().
enum class Reply {
  arrives,
  lost,      ///< carried out, but thrown as network
  repeated,  ///< carried out, and once more behind our back: "taken"
  refused    ///< not carried out, and thrown as network
};

/// How a store in memory behaves. As it is, it keeps the whole contract.
struct MemoryTraits {
  std::optional<Contest> contest;  ///< set: create() lets everybody win
  /// The store's clock.
  std::function<std::int64_t()> now_ms = [] {
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  };
  /// For how long listings hide what was written under a key.
  std::function<std::int64_t(const std::string& key)> hidden_ms = [](const std::string&) { return 0; };
  std::function<Reply(const std::string& key)> reply = [](const std::string&) { return Reply::arrives; };
  /// Called before each request is carried out, and once more before its reply arrives.
  std::function<void()> travel = [] {};
  /// What get() returns in place of what it has found.
  std::function<std::shared_ptr<const ByteReader>(std::shared_ptr<const ByteReader>)> seen_through =
      [](std::shared_ptr<const ByteReader> found) { return found; };
  bool is_remote = false;
  std::optional<std::filesystem::path> spooling_path;
  bool tells_time = false;          ///< in its listings
  bool lists_twice = false;         ///< each key, as where a page of a list ends while others write
  bool ignores_conditions = false;  ///< create() overwrites, without contest() saying so
};

/// What the clients of one store in memory share.
class MemoryBucket {
 public:
  explicit MemoryBucket(MemoryTraits traits = {}) : traits_(std::move(traits)) {}

 private:
  friend class MemoryStore;
  struct Object {
    std::vector<std::uint8_t> bytes;
    std::int64_t written_ms = 0;
    std::int64_t listed_from_ms = 0;
  };

  void write(const std::string& key, std::string_view bytes) {
    const std::int64_t now_ms = traits_.now_ms();
    objects_[key] = {bytes_of(bytes), now_ms, now_ms + traits_.hidden_ms(key)};
  }

  MemoryTraits traits_;
  std::mutex mutex_;
  std::map<std::string, Object> objects_;
};

/// One client of it.
class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryBucket> bucket = std::make_shared<MemoryBucket>())
      : bucket_(std::move(bucket)) {}

  const std::string& name() const override { return name_; }

  std::shared_ptr<const ByteReader> get(const std::string& key) const override {
    const Request request(*this, key);
    const auto found = bucket_->objects_.find(key);
    if (found == bucket_->objects_.end()) return nullptr;
    return bucket_->traits_.seen_through(std::make_shared<MemoryReader>(found->second.bytes, key));
  }

  bool is_remote() const override { return bucket_->traits_.is_remote; }
  std::optional<std::filesystem::path> spooling_path() const override { return bucket_->traits_.spooling_path; }

  void put(const std::string& key, std::string_view bytes) override {
    const Request request(*this, key);
    bucket_->write(key, bytes);
  }

  OutputFile stage() override { return OutputFile(staging_path()); }
  std::filesystem::path staging_path() override { return staging_ / "object"; }
  void put_staged(const std::string& key, OutputFile&& staged) override {
    require_place(key, name_);
    OutputFile output = std::move(staged);
    const std::filesystem::path path = staging_ / random_hex(16);
    output.commit_as(path, Overwrite::no, Durability::cached);
    put(key, get_file(path));
    std::filesystem::remove(path);
  }

  bool create(const std::string& key, std::string_view bytes) override {
    const Request request(*this, key);
    const Reply reply = bucket_->traits_.reply(key);
    if (reply == Reply::refused) throw Error(Fault::network, key, "the connection was reset");
    const bool is_exclusive = !bucket_->traits_.contest && !bucket_->traits_.ignores_conditions;
    const bool taken = is_exclusive && bucket_->objects_.contains(key);
    if (!taken) bucket_->write(key, bytes);
    if (reply == Reply::lost) throw Error(Fault::network, key, "the connection was reset");
    return !taken && reply != Reply::repeated;
  }
  std::optional<Contest> contest() const override { return bucket_->traits_.contest; }
  bool has_exclusive_create() override { return !bucket_->traits_.contest && !bucket_->traits_.ignores_conditions; }

  std::vector<Listed> list(const std::string& prefix) const override { return list_with_time(prefix).keys; }
  TimedListing list_with_time(const std::string& prefix) const override {
    if (!prefix.empty()) require_place(prefix.substr(0, prefix.size() - 1), name_);
    const Request request(*this);
    const std::int64_t now_ms = bucket_->traits_.now_ms();
    TimedListing listing;
    if (bucket_->traits_.tells_time) listing.now_ms = now_ms;
    for (const auto& [key, object] : bucket_->objects_) {
      if (!key.starts_with(prefix) || object.listed_from_ms > now_ms) continue;
      for (int times = bucket_->traits_.lists_twice ? 2 : 1; times > 0; --times)
        listing.keys.push_back({key, object.bytes.size(), object.written_ms});
    }
    return listing;
  }

  void remove(const std::string& key) override {
    const Request request(*this, key);
    bucket_->objects_.erase(key);
  }
  bool remove_older(const std::string& key, std::int64_t time_s) override {
    const Request request(*this, key);
    const auto found = bucket_->objects_.find(key);
    if (found == bucket_->objects_.end() || found->second.written_ms / 1000 >= time_s) return false;
    bucket_->objects_.erase(found);
    return true;
  }
  void remove_leftovers(std::int64_t, const IsOurs&) override {}

 private:
  /// Holds the bucket from the moment when a request arrives there until its reply is sent.
  class Request {
   public:
    explicit Request(const MemoryStore& store) : bucket_(store.bucket_.get()) {
      bucket_->traits_.travel();
      bucket_->mutex_.lock();
    }
    Request(const MemoryStore& store, const std::string& key) : Request((require_place(key, store.name_), store)) {}
    Request(const Request&) = delete;
    ~Request() {
      bucket_->mutex_.unlock();
      bucket_->traits_.travel();
    }

   private:
    MemoryBucket* bucket_;
  };

  std::shared_ptr<MemoryBucket> bucket_;
  std::string name_ = "memory";
  ScratchDirectory scratch_;
  std::filesystem::path staging_ = scratch_.path();
};

}  // namespace wdelta::testing
