// SPDX-License-Identifier: Apache-2.0
#include "store/s3/s3_store.hpp"

#include "base/moment.hpp"
#include "base/output_reader.hpp"
#include "base/path.hpp"
#include "store/http/libcurl.hpp"
#include "store/http/remote_download.hpp"
#include "store/http/spool.hpp"
#include "store/reads_at_once.hpp"
#include "store/s3/s3_upload.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t k_first_read_bytes = Spool::k_page_bytes;
constexpr std::string_view k_probe_text = "wdelta asks whether this store creates without overwriting";

// Proxies that compress, or might, call the same tag weak.
std::string_view without_weakness(std::string_view etag) {
  if (etag.starts_with("W/")) etag.remove_prefix(2);
  return etag;
}

bool is_taken(const S3Response& response) { return response.http.status == 412; }

// What was found of an object, whose ranges are fetched later.
struct FoundParts {
  std::string object;  // for messages
  std::uint64_t size_bytes = 0;
  std::string etag;  // may be empty
};

// Gives `sink` a range of an object, over as many requests as it takes.
void fetch_range(S3Connection& connection, const S3Request& request, const FoundParts& found, HttpRange range,
                 const RemoteObject::Sink& sink) {
  const std::string& object = found.object;
  std::uint64_t done = 0;
  std::uint64_t begin = range.offset;  // of the request under way
  S3Request read = request;
  read.sink = [&](const HttpResponse& head, std::span<const std::uint8_t> bytes) {
    if (!head.is_part())
      throw Error(Fault::unsupported, object, "the store sends all of an object when asked for a part of it");
    const std::string* etag = head.header("etag");
    if (!found.etag.empty() && etag != nullptr && without_weakness(*etag) != without_weakness(found.etag))
      throw Error(Fault::local, object, "was replaced while it was read", "run this again");
    require_part(head, begin, found.size_bytes, object);
    if (bytes.size() > range.size_bytes - done)
      throw Error(Fault::network, object, "more bytes came than were asked for");
    sink(bytes);
    done += bytes.size();
  };
  while (done < range.size_bytes) {
    const std::uint64_t before = done;
    const S3Response response = connection.send(read, Repeat::harmless, [&](S3Request& next) {
      begin = range.offset + done;
      next.headers.push_back(range_header({begin, range.size_bytes - done}));
    });
    if (!response.http.is_success()) throw connection.error_of(response, object);
    if (done == before) throw Error(Fault::network, object, "the store sent nothing of what was asked for");
  }
}

}  // namespace

std::unique_ptr<Store> open_s3_store(const std::string& location, const std::string& path, const Access& access,
                                     const Execution& execution) {
  const std::size_t slash = std::min(path.find('/'), path.size());
  std::string prefix = path.substr(std::min(slash + 1, path.size()));
  while (prefix.ends_with('/')) prefix.pop_back();
  if (!prefix.empty()) {
    if (const char* reason = why_not_a_place(prefix)) throw Error(Fault::usage, location, reason);
    prefix += '/';
  }
  std::string name = location;
  while (name.ends_with('/')) name.pop_back();
  auto connection = std::make_shared<S3Connection>(path.substr(0, slash), access, execution);
  if (access.creation != BucketCreation::no) connection->create_bucket();
  return std::make_unique<S3Store>(S3Store::Place{name, prefix}, std::move(connection), access, execution);
}

S3Store::S3Store(Place place, std::shared_ptr<S3Connection> connection, const Access& access, Execution execution)
    : place_(std::move(place)),
      connection_(std::move(connection)),
      directory_(access.staging_directory.empty() ? fs::temp_directory_path() / "wdelta" : access.staging_directory),
      execution_(std::move(execution)),
      read_ahead_(std::make_shared<ReadAhead>(std::max(1u, access.network.transfers))) {}

std::string S3Store::full_key(const std::string& key) const {
  require_place(key, place_.location);
  return place_.prefix + key;
}

std::shared_ptr<const ByteReader> S3Store::get(const std::string& key) const {
  if (auto held = readers_.find(key)) return held;
  auto found = find(key);
  if (!found) return nullptr;
  auto reader = reader_of(std::move(*found), directory_, read_ahead_);
  readers_.hold(key, reader);
  return reader;
}

std::optional<Digest> S3Store::get_into(OutputFile& output, const Wanted& wanted, const fs::path& directory,
                                        const Execution& execution) const {
  const auto found = find(wanted.key);
  if (!found) return std::nullopt;
  require_size(found->object, wanted.size_bytes);
  const Execution transfers = execution.on(connection_->client().options().transfers);
  return download(*found, output, directory.empty() ? directory_ : directory, transfers);
}

// Asks for the beginning at once: for most objects that is all of it, and the answer says how much there is.
std::optional<FoundObject> S3Store::find(const std::string& key) const {
  S3Request request;
  request.key = full_key(key);
  request.longest_text_bytes = k_first_read_bytes;
  const std::string object = object_of(key);
  S3Request begin = request;
  begin.headers.push_back(range_header({0, k_first_read_bytes}));
  S3Response response = connection_->send(begin);
  const int status = response.http.status;
  if (status == 404 && response.error.code != "NoSuchBucket" && !response.is_elsewhere) return std::nullopt;
  FoundObject found;
  found.object.name = object;
  // No part of nothing can be had.
  if (status == 416 && response.http.whole_size_bytes().value_or(0) == 0) return found;
  if (!response.http.is_success()) throw connection_->error_of(response, object);
  found.object.size_bytes = whole_size_of(response.http, object);
  found.beginning = std::move(response.http.text);
  const std::string etag = response.http.header_or_empty("etag");
  if (!etag.empty()) found.object.identity = connection_->base_url() + "\n" + request.key + "\n" + etag;
  found.object.stop = execution_.stop;
  const FoundParts parts{object, found.object.size_bytes, etag};
  found.object.fetch = [connection = connection_, request, parts](std::uint64_t offset, std::uint64_t count,
                                                                  const RemoteObject::Sink& sink) {
    fetch_range(*connection, request, parts, {offset, count}, sink);
  };
  return found;
}

void S3Store::put(const std::string& key, std::string_view bytes) { put(key, bytes, Repeat::harmless); }

void S3Store::put_once(const std::string& key, std::string_view bytes) { put(key, bytes, Repeat::if_not_seen); }

void S3Store::put(const std::string& key, std::string_view bytes, Repeat repeat) {
  S3Request request;
  request.method = "PUT";
  request.key = full_key(key);
  request.body = HttpBody::of_text(bytes);
  const S3Response response = connection_->send(request, repeat);
  readers_.forget(key);
  if (!response.http.is_success()) throw connection_->error_of(response, object_of(key));
}

fs::path S3Store::staging_path() {
  make_directories(directory_);
  return directory_ / "object";
}

OutputFile S3Store::stage() { return OutputFile(staging_path()); }

void S3Store::put_staged(const std::string& key, OutputFile&& staged) {
  const OutputFile output = std::move(staged);
  NoProgress silent;
  Execution execution = execution_;
  execution.progress = &silent;
  upload(*connection_, {full_key(key), object_of(key)}, OutputReader(output, object_of(key)), execution);
  readers_.forget(key);
}

void S3Store::put_bytes(const std::string& key, const ByteReader& bytes, const Execution& execution) {
  upload(*connection_, {full_key(key), object_of(key)}, bytes, execution);
  readers_.forget(key);
}

bool S3Store::has(const Wanted& wanted) const {
  S3Request request;
  request.method = "HEAD";
  request.key = full_key(wanted.key);
  const S3Response response = connection_->send(request);
  return response.http.status == 200 &&
         response.http.header_or_empty("content-length") == std::to_string(wanted.size_bytes);
}

// A try whose answer is lost is not simply sent again: a store that ignores the condition would write a second time,
// and give a key that others have seen already a later time. What is there tells what became of it.
bool S3Store::create(const std::string& key, std::string_view bytes) {
  constexpr int k_most_rounds = 6;
  S3Request request;
  request.method = "PUT";
  request.key = full_key(key);
  request.body = HttpBody::of_text(bytes);
  request.headers.push_back({"If-None-Match", "*"});
  const auto is_ours = [&](const ByteReader& there) {
    return there.size_bytes() == bytes.size() &&
           std::ranges::equal(read_all(there), bytes, {}, {}, [](char c) { return static_cast<std::uint8_t>(c); });
  };
  bool is_lost = false;
  for (int round = 1;; ++round) {
    std::optional<S3Response> response;
    std::optional<Error> failure;
    try {
      response = connection_->send(request, Repeat::if_not_seen);
    } catch (const Error& error) {
      if (error.fault() != Fault::network || connection_->client().options().offline) throw;
      failure = error;
      is_lost = true;
    }
    readers_.forget(key);
    if (response) {
      const int status = response->http.status;
      if (response->http.is_success()) return true;
      if (is_taken(*response) && !is_lost) return false;
      failure = connection_->error_of(*response, object_of(key));
      const bool is_unknown = status == 408 || status == 500 || status == 502 || status == 503 || status == 504 ||
                              response->error.code == "RequestTimeout";
      // 409: somebody writes or removes it at this very moment.
      if (!is_unknown && !is_taken(*response) && status != 409) throw *failure;
      is_lost = is_lost || is_unknown;
    }
    if (const auto there = is_lost ? get(key) : nullptr) return is_ours(*there);
    if (round == k_most_rounds || (is_lost && contest())) throw *failure;
    sleep_until(std::chrono::steady_clock::now() + round * connection_->client().options().retry_wait, execution_.stop);
  }
}

// What the Hub's gateway promises to its own clients it cannot promise to those of the Hub's native API.
std::optional<Contest> S3Store::contest() const {
  if (!connection_->is_hub_gateway()) return std::nullopt;
  return k_hub_contest;
}

bool S3Store::has_exclusive_create() {
  S3Request request;
  request.method = "PUT";
  const std::string key = new_probe_key();
  request.key = full_key(key);
  request.body = HttpBody::of_text(k_probe_text);
  request.headers.push_back({"If-None-Match", "*"});
  const S3Response first = connection_->send(request);
  if (first.http.status == 501 || first.error.code == "NotImplemented") return false;
  if (!first.http.is_success() && !is_taken(first)) throw connection_->error_of(first, object_of(key));
  const S3Response second = connection_->send(request);
  try {
    remove(key);
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    // Who may not remove may push all the same; gc finds it.
  }
  if (second.http.is_success()) return false;
  if (is_taken(second) || second.http.status == 409) return true;
  throw connection_->error_of(second, object_of(key));
}

bool S3Store::refuses_to_create(const std::string& key, std::string_view bytes) {
  S3Request request;
  request.method = "PUT";
  request.key = full_key(key);
  request.body = HttpBody::of_text(bytes);
  request.headers.push_back({"If-None-Match", "*"});
  const S3Response response = connection_->send(request);
  readers_.forget(key);
  if (response.http.is_success() || response.http.status == 501 || response.error.code == "NotImplemented")
    return false;
  if (is_taken(response) || response.http.status == 409) return true;
  throw connection_->error_of(response, object_of(key));
}

S3Store::Objects S3Store::list_objects(const std::string& full_prefix) const {
  Objects found;
  S3Request request;
  std::set<std::string> seen;
  for (std::string next;;) {
    request.query = {{"list-type", "2"}, {"prefix", full_prefix}};
    if (!next.empty()) request.query.push_back({"continuation-token", next});
    const S3Response response = connection_->send(request);
    if (!response.http.is_success()) throw connection_->error_of(response, place_.location);
    // The first page's: what was written later may be missing from it.
    const std::time_t date = libcurl().getdate(response.http.header_or_empty("date").c_str(), nullptr);
    if (next.empty() && date >= 0) found.now_ms = std::int64_t{date} * 1000;
    S3List page = parse_s3_list(response.http.text, place_.location);
    std::ranges::move(page.objects, std::back_inserter(found.objects));
    if (page.next.empty()) return found;
    if (!seen.insert(page.next).second)
      throw Error(Fault::network, place_.location, "the store lists the same page again");
    next = std::move(page.next);
  }
}

std::vector<Store::Listed> S3Store::list(const std::string& prefix) const { return list_with_time(prefix).keys; }

Store::TimedListing S3Store::list_with_time(const std::string& prefix) const {
  if (!prefix.empty()) require_place(prefix.substr(0, prefix.size() - 1), place_.location);
  const Objects found = list_objects(place_.prefix + prefix);
  TimedListing listed{{}, found.now_ms};
  for (const S3Object& object : found.objects) {
    // What other programs keep in the bucket may have names that are no keys.
    const std::string key = object.key.substr(std::min(place_.prefix.size(), object.key.size()));
    if (!object.key.starts_with(place_.prefix + prefix) || why_not_a_place(key) != nullptr) continue;
    listed.keys.push_back({key, object.size_bytes, object.written_ms});
  }
  listed.keys = in_order(std::move(listed.keys));
  return listed;
}

void S3Store::remove(const std::string& key) {
  S3Request request;
  request.method = "DELETE";
  request.key = full_key(key);
  const S3Response response = connection_->send(request);
  readers_.forget(key);
  const bool is_gone = response.http.status == 404 && response.error.code != "NoSuchBucket";
  if (!response.http.is_success() && !is_gone) throw connection_->error_of(response, object_of(key));
}

bool S3Store::remove_older(const std::string& key, std::int64_t time_s) {
  return !remove_all_older(std::span(&key, 1), time_s).empty();
}

// Their ages come from lists: of one key, or for many of all that begins as they do.
std::vector<std::string> S3Store::remove_all_older(std::span<const std::string> keys, std::int64_t time_s) {
  constexpr std::size_t k_few = 4;
  std::map<std::string, S3Object> found;
  const auto look = [&](const std::string& full_prefix) {
    for (S3Object& object : list_objects(full_prefix).objects) {
      S3Object& known = found[object.key];
      // A list that is made while others write may show one twice.
      if (known.key.empty() || known.written_ms < object.written_ms) known = std::move(object);
    }
  };
  if (keys.size() > k_few) {
    const auto [least, greatest] = std::ranges::minmax(keys);
    const auto end = std::ranges::mismatch(least, greatest).in1;
    look(place_.prefix + std::string(least.begin(), end));
  }
  if (keys.size() <= k_few) {
    for (const std::string& key : keys) look(full_key(key));
  }
  std::vector<char> is_removed(keys.size());
  for_each_read(*this, keys.size(), execution_.stop, [&](std::size_t i) {
    const auto object = found.find(full_key(keys[i]));
    is_removed[i] = object != found.end() && remove_if_older(keys[i], object->second, time_s);
  });
  std::vector<std::string> removed;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (is_removed[i]) removed.push_back(keys[i]);
  }
  return removed;
}

bool S3Store::remove_if_older(const std::string& key, const S3Object& object, std::int64_t time_s) {
  if (object.written_ms >= time_s * 1000) return false;
  // Stores that know the condition remove only what was looked at, be it put again with the same bytes: a push puts
  // nothing under a name that a plan of gc has (repo/object_writer).
  S3Request request;
  request.method = "DELETE";
  request.key = object.key;
  if (!object.etag.empty()) request.headers.push_back({"If-Match", object.etag});
  S3Response response = connection_->send(request);
  if (response.http.status == 501 || response.http.status == 400) {
    request.headers.clear();
    response = connection_->send(request);
  }
  readers_.forget(key);
  if (response.http.status == 412 || response.http.status == 404) return false;
  if (!response.http.is_success()) throw connection_->error_of(response, object_of(key));
  return true;
}

void S3Store::remove_leftovers(std::int64_t time_s, const IsOurs& is_ours) {
  abort_uploads(*connection_, {place_.prefix, place_.location}, time_s, is_ours);
  for (const S3Object& object : list_objects(place_.prefix + "probe-").objects) {
    const std::string key = object.key.substr(std::min(place_.prefix.size(), object.key.size()));
    if (is_probe_key(key) && object.size_bytes == k_probe_text.size()) remove_if_older(key, object, time_s);
  }
}

}  // namespace wdelta
