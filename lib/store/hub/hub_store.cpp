// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_store.hpp"

#include "base/error.hpp"
#include "base/output_reader.hpp"
#include "base/path.hpp"
#include "store/http/remote_download.hpp"
#include "store/http/spool.hpp"
#include "store/hub/hub_reader.hpp"
#include "store/hub/xet_sender.hpp"

#include <set>
#include <utility>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

/// Reports what is read of it.
class ReportedReader final : public ByteReader {
 public:
  ReportedReader(const ByteReader& bytes, Progress& progress) : bytes_(&bytes), progress_(&progress) {}

  std::uint64_t size_bytes() const override { return bytes_->size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    bytes_->read_at(offset, bytes);
    progress_->advance(bytes.size());
  }
  const std::string& name() const override { return bytes_->name(); }

 private:
  const ByteReader* bytes_;
  Progress* progress_;
};

}  // namespace

/// What was put since the last flush: its bytes are on their way, its names are not there yet.
class HubStore::Gathered {
 public:
  Gathered(std::shared_ptr<HubClient> client, const Execution& execution)
      : client_(std::move(client)), sender_(client_), upload_(sender_, execution) {}

  void copy(std::string path, const ModelCommit& from, const ModelFile& file) {
    paths_.insert(path);
    additions_.push_back({std::move(path), file.xet_hash, from.model});
  }
  void add(std::string path, const ByteReader& bytes) { name(std::move(path), upload_.add(bytes)); }
  void add(std::string path, std::span<const std::uint8_t> bytes) { name(std::move(path), upload_.add(bytes)); }
  bool has(const std::string& path) const { return paths_.contains(path); }
  bool is_large() const { return additions_.size() >= k_most_names; }

  void send() {
    upload_.finish();
    sender_.wait();
    client_->add_files(additions_);
  }

 private:
  static constexpr std::size_t k_most_names = 100'000;

  void name(std::string path, const XetHash& hash) {
    paths_.insert(path);
    additions_.push_back({std::move(path), hash.text()});
  }

  std::shared_ptr<HubClient> client_;
  XetSender sender_;
  XetUpload upload_;
  std::vector<HubAddition> additions_;
  std::set<std::string> paths_;
};

HubStore::HubStore(const HubLocation& location, std::string name, const Access& access, const Execution& execution)
    : name_(std::move(name)),
      prefix_(location.prefix),
      execution_(execution),
      directory_(access.staging_directory.empty() ? fs::temp_directory_path() / "wdelta" : access.staging_directory),
      client_(std::make_shared<HubClient>(access.hub, location.bucket,
                                          std::make_shared<HttpClient>(access.network, execution))),
      read_ahead_(std::make_shared<ReadAhead>(access.network.transfers)) {
  while (name_.ends_with('/')) name_.pop_back();
  if (access.creation != BucketCreation::no) client_->create_bucket(access.creation);
}

HubStore::~HubStore() = default;

std::string HubStore::path_of(const std::string& key) const {
  require_place(key, name_);
  return prefix_ + key;
}

// Gathered work is sent when somebody asks for what it would change. If that fails it is gone, as after a crash.
void HubStore::flush_if(bool is_needed) const {
  if (!is_needed || !gathered_) return;
  const auto sent = std::move(gathered_);
  sent->send();
}

std::shared_ptr<const ByteReader> HubStore::get(const std::string& key) const {
  const std::string path = path_of(key);
  {
    const std::lock_guard lock(mutex_);
    flush_if(gathered_ && gathered_->has(path));
  }
  if (auto held = readers_.find(path)) return held;
  auto found = find_hub_file(client_, path);
  if (!found) return nullptr;
  auto reader = reader_of(std::move(*found), directory_ / "spool", read_ahead_);
  readers_.hold(path, reader);
  return reader;
}

std::optional<Digest> HubStore::get_into(OutputFile& output, const Wanted& wanted, const fs::path& directory,
                                         const Execution& execution) const {
  const std::string path = path_of(wanted.key);
  {
    const std::lock_guard lock(mutex_);
    flush_if(gathered_ && gathered_->has(path));
  }
  const auto found = find_hub_file(client_, path);
  if (!found) return std::nullopt;
  require_size(found->object, wanted.size_bytes);
  const Execution transfers = execution.on(client_->http().options().transfers);
  return download(*found, output, directory.empty() ? directory_ / "spool" : directory, transfers);
}

void HubStore::put(const std::string& key, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (!gathered_) gathered_ = std::make_unique<Gathered>(client_, execution_);
  readers_.forget(path_of(key));
  gathered_->add(path_of(key), std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  flush_if(gathered_->is_large());
}

fs::path HubStore::staging_path() {
  const fs::path folder = directory_ / "staging";
  make_directories(folder);
  return folder / "object";
}

OutputFile HubStore::stage() { return OutputFile(staging_path()); }

void HubStore::put_staged(const std::string& key, OutputFile&& staged) {
  const OutputFile file = std::move(staged);
  gather(key, OutputReader(file, key));
}

// Xorbs are sent as they fill, and no more are made than are on their way: what is read is about what is sent.
void HubStore::put_bytes(const std::string& key, const ByteReader& bytes, const Execution& execution) {
  gather(key, ReportedReader(bytes, *execution.progress));
}

void HubStore::gather(const std::string& key, const ByteReader& bytes) {
  const std::lock_guard lock(mutex_);
  if (!gathered_) gathered_ = std::make_unique<Gathered>(client_, execution_);
  readers_.forget(path_of(key));
  gathered_->add(path_of(key), bytes);
  flush_if(gathered_->is_large());
}

void HubStore::put_copy(const std::string& key, const ModelCommit& from, const ModelFile& file) {
  const std::lock_guard lock(mutex_);
  if (!gathered_) gathered_ = std::make_unique<Gathered>(client_, execution_);
  readers_.forget(path_of(key));
  gathered_->copy(path_of(key), from, file);
  flush_if(gathered_->is_large());
}

void HubStore::flush() {
  const std::lock_guard lock(mutex_);
  flush_if(true);
}

// One request that is never repeated, behind everything that was put before.
bool HubStore::create(const std::string& key, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  flush_if(true);
  XetSender sender(client_);
  XetUpload upload(sender, execution_);
  const XetHash hash = upload.add(std::span(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()));
  upload.finish();
  sender.wait();
  client_->add_file_once({path_of(key), hash.text()});
  return true;
}

std::optional<Contest> HubStore::contest() const { return k_hub_contest; }

std::vector<Store::Listed> HubStore::list(const std::string& prefix) const { return list_with_time(prefix).keys; }

Store::TimedListing HubStore::list_with_time(const std::string& prefix) const {
  {
    const std::lock_guard lock(mutex_);
    flush_if(true);
  }
  const HubClient::Listing found = client_->list(prefix_ + prefix);
  TimedListing listing{{}, found.now_ms};
  for (const HubFile& file : found.files) {
    std::string key = file.path.substr(prefix_.size());
    // What someone else put there under a name that no key has is nothing of ours.
    if (why_not_a_place(key) != nullptr) continue;
    // Times decide which entries of a branch count, and what may be collected.
    if (!file.uploaded_ms)
      throw Error(Fault::network, name_ + "/" + key, "the Hub does not say when it was uploaded", "try again later");
    listing.keys.push_back({std::move(key), file.size_bytes, *file.uploaded_ms});
  }
  listing.keys = in_order(std::move(listing.keys));
  return listing;
}

void HubStore::remove(const std::string& key) { remove_all(std::span(&key, 1)); }

bool HubStore::remove_older(const std::string& key, std::int64_t time_s) {
  return !remove_all_older(std::span(&key, 1), time_s).empty();
}

void HubStore::remove_all(std::span<const std::string> keys) {
  std::vector<std::string> paths;
  for (const std::string& key : keys) paths.push_back(path_of(key));
  const std::lock_guard lock(mutex_);
  flush_if(true);  // or what was put before would be added behind its removal
  for (const std::string& path : paths) readers_.forget(path);
  client_->delete_files(paths);
}

std::vector<std::string> HubStore::remove_all_older(std::span<const std::string> keys, std::int64_t time_s) {
  std::vector<std::string> paths;
  for (const std::string& key : keys) paths.push_back(path_of(key));
  std::vector<std::string> old;
  for (const HubFile& file : client_->look_up(paths)) {
    if (file.uploaded_ms && *file.uploaded_ms < time_s * 1000) old.push_back(file.path.substr(prefix_.size()));
  }
  remove_all(old);
  return old;
}

// What is registered and has no name is the Hub's to collect; what killed programs left here is looked after here.
void HubStore::remove_leftovers(std::int64_t, const IsOurs&) {
  constexpr std::int64_t k_day_s = 86'400;
  Spool::remove_older(directory_ / "spool", k_day_s);
}

}  // namespace wdelta
