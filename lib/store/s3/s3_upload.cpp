// SPDX-License-Identifier: Apache-2.0
#include "store/s3/s3_upload.hpp"

#include "base/parallel.hpp"
#include "store/http/rate_limit.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace wdelta {

namespace {

constexpr std::uint64_t k_smallest_part_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t k_most_parts = 10'000;

std::uint64_t part_size_for(std::uint64_t size_bytes) {
  constexpr std::uint64_t k_mib = std::uint64_t{1} << 20;
  const std::uint64_t needed = (size_bytes + k_most_parts - 1) / k_most_parts;
  return std::max(k_smallest_part_bytes, (needed + k_mib - 1) / k_mib * k_mib);
}

// Somebody else's bytes, for as long as an upload takes.
class BorrowedReader final : public ByteReader {
 public:
  explicit BorrowedReader(const ByteReader& bytes) : bytes_(&bytes) {}
  std::uint64_t size_bytes() const override { return bytes_->size_bytes(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override { bytes_->read_at(offset, bytes); }
  const std::string& name() const override { return bytes_->name(); }

 private:
  const ByteReader* bytes_;
};

// Told how far a body has come; one that is sent again counts once.
std::function<void(std::uint64_t)> reports_to(Progress& progress) {
  return [&progress, reported = std::make_shared<std::uint64_t>(0)](std::uint64_t sent_bytes) {
    if (sent_bytes <= *reported) return;
    progress.advance(sent_bytes - *reported);
    *reported = sent_bytes;
  };
}

S3Request request_for(const char* method, const S3Target& target, std::vector<QueryParameter> query) {
  S3Request request;
  request.method = method;
  request.key = target.key;
  request.query = std::move(query);
  return request;
}

class PartedUpload {
 public:
  PartedUpload(S3Connection& connection, const S3Target& target, std::shared_ptr<const ByteReader> file,
               Progress& progress)
      : connection_(&connection),
        target_(&target),
        progress_(&progress),
        file_(std::move(file)),
        part_bytes_(part_size_for(file_->size_bytes())),
        parts_((file_->size_bytes() + part_bytes_ - 1) / part_bytes_),
        etags_(parts_.size()) {}

  // An upload that another program began and did not finish, the one with the most of our parts. A store that does not
  // list them, or not so that it can be understood, has none: they are a saving, not what a push depends on.
  bool take_over() {
    std::size_t most = 0;
    for (const S3Upload& each : uploads_of(*connection_, target_->key, target_->object).found) {
      if (each.key != target_->key) continue;
      std::vector<S3Part> parts = usable_parts_of(each.id);
      const std::size_t count = parts.size() - std::ranges::count(parts, 0u, &S3Part::number);
      if (count <= most) continue;
      most = count;
      id_ = each.id;
      parts_ = std::move(parts);
    }
    for (const S3Part& part : parts_) progress_->advance(part.size_bytes);
    return most > 0;
  }

  void begin() {
    S3Request request = request_for("POST", *target_, {{"uploads", ""}});
    request.body = HttpBody::of_text("");
    const S3Response response = connection_->send(request);
    if (!response.http.is_success()) throw connection_->error_of(response, target_->object);
    id_ = parse_s3_upload_id(response.http.text, target_->object);
    is_ours_ = true;
  }

  void send_parts(const Execution& execution) {
    const Execution several = execution.on(connection_->client().options().transfers);
    parallel_for(parts_.size(), several, [this] { return [this](std::size_t index) { send_part(index); }; });
  }

  // The answer begins before the work does: a success may turn out to be none, or end before it says what became of it.
  void complete(const std::stop_token& stop) {
    constexpr int k_most_tries = 4;
    S3Request request = request_for("POST", *target_, {{"uploadId", id_}});
    request.body = HttpBody::of_text(s3_completion(parts_));
    for (int tries = 1;; ++tries) {
      S3Response response = connection_->send(request);
      const bool is_success = response.http.is_success();
      if (is_success && is_s3_completed(response.http.text)) return;
      if (response.error.code.empty()) response.error = parse_s3_error(response.http.text);
      if (is_of_another(response)) is_lost_ = true;
      if (!is_success || tries == k_most_tries) {
        if (is_success) response.http.status = 500;  // what is there may be older: nothing was completed
        throw connection_->error_of(response, target_->object);
      }
      sleep_until(std::chrono::steady_clock::now() + tries * connection_->client().options().retry_wait, stop);
    }
  }

  // Gives up what it began itself.
  void abort() noexcept try {
    if (is_ours_) connection_->send(request_for("DELETE", *target_, {{"uploadId", id_}}));
  } catch (...) {
    // gc finds it.
  }

  // Whether another program that sends the same bytes completed the upload, gave it up, or put a part of its own in
  // place of one of ours.
  bool is_lost() const { return is_lost_; }

  bool is_there() {
    S3Request request = request_for("GET", *target_, {});
    request.headers.push_back(range_header({0, 1}));
    const S3Response response = connection_->send(request);
    return response.http.is_success() && response.http.whole_size_bytes() == file_->size_bytes();
  }

  struct Uploads {
    std::vector<S3Upload> found;
    std::optional<S3Response> refusal;  // of a store that does not list them, or not to everybody
    std::optional<Error> unreadable;    // what a store says instead that cannot be understood
  };

  static Uploads uploads_of(S3Connection& connection, const std::string& prefix, const std::string& object) {
    Uploads uploads;
    S3UploadList page;
    std::set<std::pair<std::string, std::string>> seen;  // a store that does not know markers begins anew each time
    do {
      S3Request request;
      request.query = {{"uploads", ""}, {"prefix", prefix}};
      if (!page.next_key.empty()) request.query.push_back({"key-marker", page.next_key});
      if (!page.next_id.empty()) request.query.push_back({"upload-id-marker", page.next_id});
      S3Response response = connection.send(request);
      if (!response.http.is_success()) return {{}, std::move(response), {}};
      try {
        page = parse_s3_uploads(response.http.text, object);
      } catch (const Error& error) {
        return {{}, {}, error};
      }
      std::ranges::move(page.uploads, std::back_inserter(uploads.found));
    } while (!page.next_key.empty() && seen.emplace(page.next_key, page.next_id).second);
    return uploads;
  }

 private:
  HttpBody body_of(std::size_t index) const {
    const std::uint64_t offset = index * part_bytes_;
    return {file_, offset, std::min(part_bytes_, file_->size_bytes() - offset), {}};
  }

  void send_part(std::size_t index) {
    if (parts_[index].number != 0) return;
    S3Request request = request_for("PUT", *target_, {{"partNumber", fmt::format("{}", index + 1)}, {"uploadId", id_}});
    request.body = body_of(index);
    request.body->on_sent = reports_to(*progress_);
    const S3Response response = connection_->send(request);
    if (is_of_another(response)) is_lost_ = true;
    if (!response.http.is_success()) throw connection_->error_of(response, target_->object);
    const std::string etag = response.http.header_or_empty("etag");
    if (etag.empty()) throw Error(Fault::network, target_->object, "the store took a part and did not name it (ETag)");
    parts_[index] = {static_cast<unsigned>(index + 1), request.body->size_bytes, etag};
  }

  static bool is_of_another(const S3Response& response) {
    const std::string& code = response.error.code;
    return code == "NoSuchUpload" || code == "InvalidPart" || code == "InvalidPartOrder";
  }

  // Of an upload, those whose ETag is the MD5 of our bytes: any other is sent again. None where they cannot be listed
  // to the end.
  std::vector<S3Part> usable_parts_of(const std::string& id) {
    std::vector<S3Part> usable(parts_.size());
    std::string marker;
    std::set<std::string> seen;
    do {
      std::vector<QueryParameter> query = {{"uploadId", id}};
      if (!marker.empty()) query.push_back({"part-number-marker", marker});
      const S3Response response = connection_->send(request_for("GET", *target_, query));
      if (!response.http.is_success()) return std::vector<S3Part>(parts_.size());
      S3PartList page;
      try {
        page = parse_s3_parts(response.http.text, target_->object);
      } catch (const Error&) {
        return std::vector<S3Part>(parts_.size());
      }
      for (const S3Part& part : page.parts) {
        if (part.number == 0 || part.number > usable.size()) continue;
        if (part.size_bytes == body_of(part.number - 1).size_bytes && part.etag == etag_of(part.number - 1))
          usable[part.number - 1] = part;
      }
      marker = page.next;
    } while (!marker.empty() && seen.insert(marker).second);
    return usable;
  }

  const std::string& etag_of(std::size_t index) {
    if (etags_[index].empty()) etags_[index] = "\"" + md5_hex(body_of(index)) + "\"";
    return etags_[index];
  }

  S3Connection* connection_;
  const S3Target* target_;
  Progress* progress_;
  std::shared_ptr<const ByteReader> file_;
  std::uint64_t part_bytes_;
  std::vector<S3Part> parts_;       // number 0: not sent yet
  std::vector<std::string> etags_;  // of our bytes, where somebody asked
  std::string id_;
  bool is_ours_ = false;
  std::atomic<bool> is_lost_ = false;
};

}  // namespace

void upload(S3Connection& connection, const S3Target& target, const ByteReader& bytes, const Execution& execution) {
  const auto reader = std::make_shared<BorrowedReader>(bytes);
  if (reader->size_bytes() <= k_smallest_part_bytes) {
    S3Request request = request_for("PUT", target, {});
    request.body = HttpBody{reader, 0, reader->size_bytes(), reports_to(*execution.progress)};
    const S3Response response = connection.send(request);
    if (!response.http.is_success()) throw connection.error_of(response, target.object);
    return;
  }
  NoProgress silent;
  for (bool may_share = true;; may_share = false) {
    // What is sent a second time is not told a second time.
    PartedUpload parted(connection, target, reader, may_share ? *execution.progress : silent);
    try {
      if (!may_share || !parted.take_over()) parted.begin();
      parted.send_parts(execution);
      parted.complete(execution.stop);
      return;
    } catch (const Error& error) {
      // After a network failure, as after a kill, the next try goes on with what is there.
      const bool may_go_on = error.fault() == Fault::network || error.fault() == Fault::interrupted;
      if (parted.is_lost() || !may_go_on) parted.abort();
      if (parted.is_lost() && parted.is_there()) return;
      if (!parted.is_lost() || !may_share) throw;
    }
  }
}

void abort_uploads(S3Connection& connection, const S3Target& below, std::int64_t time_s, const Store::IsOurs& is_ours) {
  const PartedUpload::Uploads uploads = PartedUpload::uploads_of(connection, below.key, below.object);
  // Not every store lists them, and not every key may.
  constexpr int k_not_for_us[] = {403, 404, 405, 501};
  if (uploads.refusal && std::ranges::find(k_not_for_us, uploads.refusal->http.status) == std::end(k_not_for_us))
    throw connection.error_of(*uploads.refusal, below.object);
  if (uploads.unreadable) throw *uploads.unreadable;
  for (const S3Upload& each : uploads.found) {
    if (!each.begun_ms || *each.begun_ms >= time_s * 1000 || !each.key.starts_with(below.key)) continue;
    if (!is_ours(each.key.substr(below.key.size()))) continue;
    const S3Response response =
        connection.send(request_for("DELETE", {each.key, below.object}, {{"uploadId", each.id}}));
    if (!response.http.is_success() && response.http.status != 404) throw connection.error_of(response, below.object);
  }
}

}  // namespace wdelta
