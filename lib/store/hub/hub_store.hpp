// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/output_file.hpp"
#include "store/access.hpp"
#include "store/http/held_readers.hpp"
#include "store/hub/hub_client.hpp"
#include "store/hub/hub_location.hpp"
#include "store/store.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

namespace wdelta {

class ReadAhead;

/// A store in a bucket of the Hugging Face Hub, by its native interface: any token of an account that may write there
/// will do. What is put is gathered into xorbs, which are sent as they fill; flush() registers them and gives all files
/// their names in one request of a thousand. The Hub knows no condition of any kind: create() has as many winners as
/// there are writers, and contest() says so.
class HubStore final : public Store {
 public:
  /// Makes the bucket where `access` says so. `name` is what the user wrote.
  HubStore(const HubLocation& location, std::string name, const Access& access, const Execution& execution);
  /// What was put and not flushed is forgotten.
  ~HubStore() override;

  const std::string& name() const override { return name_; }
  std::shared_ptr<const ByteReader> get(const std::string& key) const override;
  std::optional<Digest> get_into(OutputFile& output, const Wanted& wanted, const std::filesystem::path& directory,
                                 const Execution& execution) const override;
  std::optional<std::filesystem::path> spooling_path() const override { return directory_ / "spool"; }
  void put(const std::string& key, std::string_view bytes) override;
  OutputFile stage() override;
  std::filesystem::path staging_path() override;
  void put_staged(const std::string& key, OutputFile&& staged) override;
  void put_bytes(const std::string& key, const ByteReader& bytes, const Execution& execution) override;
  bool is_remote() const override { return true; }
  unsigned reads_at_once() const override { return std::max(1u, client_->http().options().transfers); }
  void flush() override;
  bool can_copy_models() const override { return true; }
  void put_copy(const std::string& key, const ModelCommit& from, const ModelFile& file) override;
  bool create(const std::string& key, std::string_view bytes) override;
  std::optional<Contest> contest() const override;
  std::vector<Listed> list(const std::string& prefix) const override;
  TimedListing list_with_time(const std::string& prefix) const override;
  void remove(const std::string& key) override;
  bool remove_older(const std::string& key, std::int64_t time_s) override;
  void remove_all(std::span<const std::string> keys) override;
  std::vector<std::string> remove_all_older(std::span<const std::string> keys, std::int64_t time_s) override;
  void remove_leftovers(std::int64_t time_s, const IsOurs& is_ours) override;

 private:
  class Gathered;

  std::string path_of(const std::string& key) const;
  void flush_if(bool is_needed) const;
  void gather(const std::string& key, const ByteReader& bytes);

  std::string name_;
  std::string prefix_;
  Execution execution_;
  std::filesystem::path directory_;
  std::shared_ptr<HubClient> client_;
  std::shared_ptr<ReadAhead> read_ahead_;
  mutable std::mutex mutex_;
  mutable std::unique_ptr<Gathered> gathered_;
  mutable HeldReaders readers_;
};

}  // namespace wdelta
