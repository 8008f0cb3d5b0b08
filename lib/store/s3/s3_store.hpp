// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/output_file.hpp"
#include "store/http/held_readers.hpp"
#include "store/http/read_ahead.hpp"
#include "store/http/remote_reader.hpp"
#include "store/s3/s3_connection.hpp"
#include "store/store.hpp"

#include <algorithm>
#include <memory>

namespace wdelta {

/// s3://BUCKET[/PREFIX]; `path` is what follows s3://.
std::unique_ptr<Store> open_s3_store(const std::string& location, const std::string& path, const Access& access,
                                     const Execution& execution);

/// Keys as objects of a bucket, below a prefix: AWS S3 and what speaks its protocol. create() is a PUT with
/// If-None-Match, which stores that do not know it ignore; has_exclusive_create() finds these. Large objects are staged
/// in a directory of this machine and sent in parts; parts that a killed program sent are not sent again.
class S3Store final : public Store {
 public:
  struct Place {
    std::string location;  ///< as the user wrote it
    std::string prefix;    ///< of all keys: empty, or ends with '/'
  };
  S3Store(Place place, std::shared_ptr<S3Connection> connection, const Access& access, Execution execution);

  const std::string& name() const override { return place_.location; }
  std::shared_ptr<const ByteReader> get(const std::string& key) const override;
  std::optional<Digest> get_into(OutputFile& output, const Wanted& wanted, const std::filesystem::path& directory,
                                 const Execution& execution) const override;
  std::optional<std::filesystem::path> spooling_path() const override { return directory_; }
  void put(const std::string& key, std::string_view bytes) override;
  void put_once(const std::string& key, std::string_view bytes) override;
  OutputFile stage() override;
  std::filesystem::path staging_path() override;
  void put_staged(const std::string& key, OutputFile&& staged) override;
  void put_bytes(const std::string& key, const ByteReader& bytes, const Execution& execution) override;
  bool has(const Wanted& wanted) const override;
  bool is_remote() const override { return true; }
  unsigned reads_at_once() const override { return std::max(1u, connection_->client().options().transfers); }
  bool create(const std::string& key, std::string_view bytes) override;
  bool has_exclusive_create() override;
  bool refuses_to_create(const std::string& key, std::string_view bytes) override;
  std::optional<Contest> contest() const override;
  std::vector<Listed> list(const std::string& prefix) const override;
  TimedListing list_with_time(const std::string& prefix) const override;
  void remove(const std::string& key) override;
  bool remove_older(const std::string& key, std::int64_t time_s) override;
  std::vector<std::string> remove_all_older(std::span<const std::string> keys, std::int64_t time_s) override;
  void remove_leftovers(std::int64_t time_s, const IsOurs& is_ours) override;

 private:
  std::string full_key(const std::string& key) const;
  std::string object_of(const std::string& key) const { return place_.location + "/" + key; }
  std::optional<FoundObject> find(const std::string& key) const;
  void put(const std::string& key, std::string_view bytes, Repeat repeat);
  struct Objects {
    std::vector<S3Object> objects;
    std::optional<std::int64_t> now_ms;
  };
  Objects list_objects(const std::string& full_prefix) const;
  bool remove_if_older(const std::string& key, const S3Object& object, std::int64_t time_s);

  Place place_;
  std::shared_ptr<S3Connection> connection_;
  std::filesystem::path directory_;
  Execution execution_;
  std::shared_ptr<ReadAhead> read_ahead_;
  mutable HeldReaders readers_;
};

}  // namespace wdelta
