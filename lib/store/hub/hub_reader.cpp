// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_reader.hpp"

#include "base/error.hpp"
#include "store/http/retry.hpp"

#include <fmt/format.h>
#include <mutex>

namespace wdelta {

namespace {

constexpr std::uint64_t k_first_bytes = std::uint64_t{1} << 20;

// Fetches ranges of one file. The Hub says where its bytes are, by a URL that is good for a while.
class HubRanges {
 public:
  HubRanges(std::shared_ptr<const HubFiles> files, std::string path, const HubFetched& found, std::uint64_t size_bytes)
      : files_(std::move(files)), path_(std::move(path)), size_bytes_(size_bytes) {
    go_to(found);
  }

  void fetch(std::uint64_t offset, std::uint64_t size_bytes, const RemoteObject::Sink& sink) {
    std::uint64_t arrived = 0;
    const auto make_request = [&] {
      HttpRequest request = request_there();
      const std::uint64_t begin = offset + arrived;
      request.headers.push_back(range_header({begin, size_bytes - arrived}));
      request.sink = [&, begin](const HttpResponse& head, std::span<const std::uint8_t> bytes) {
        require_range(head, begin, bytes.size() <= size_bytes - arrived);
        arrived += bytes.size();
        sink(bytes);
      };
      return request;
    };
    while (arrived < size_bytes) {
      const std::uint64_t before = arrived;
      const HttpResponse response = send_with_retries(files_->http(), make_request, Repeat::harmless);
      if (response.is_success() && arrived > before) continue;  // a server may answer with less than it was asked for
      // What was signed has expired: the Hub signs anew.
      if (response.status < 400 || asked_again_ > k_most_questions) throw files_->error_of(response, "GET " + path_);
      ask_again(make_request);
    }
  }

 private:
  static constexpr int k_most_questions = 1000;

  HttpRequest request_there() {
    const std::lock_guard lock(mutex_);
    return there_;
  }

  void go_to(const HubFetched& found) {
    const std::lock_guard lock(mutex_);
    there_.url = found.url;
    there_.secret_headers = found.secret_headers;
  }

  void require_range(const HttpResponse& head, std::uint64_t begin, bool fits) const {
    if (head.status != 206 || !fits)
      throw Error(Fault::network, path_,
                  fmt::format("asked for a part of it, the answer is another one (status {})", head.status),
                  "run this again");
    require_part(head, begin, size_bytes_, path_);
  }

  void ask_again(const std::function<HttpRequest()>& make_request) {
    ++asked_again_;
    const auto found = files_->fetch(path_, make_request);
    if (!found) throw Error(Fault::corrupt, path_, "vanished while it was read");
    if (found->response.status != 206) throw files_->error_of(found->response, "GET " + path_);
    go_to(*found);
  }

  std::shared_ptr<const HubFiles> files_;
  std::string path_;
  std::mutex mutex_;
  HttpRequest there_;  // where its bytes are, and what that wants
  std::uint64_t size_bytes_;
  std::atomic<int> asked_again_ = 0;
};

}  // namespace

std::optional<FoundObject> find_hub_file(std::shared_ptr<const HubFiles> files, const std::string& path) {
  auto fetched = files->fetch(path, [] {
    HttpRequest request;
    request.headers.push_back(range_header({0, k_first_bytes}));
    return request;
  });
  if (!fetched) return std::nullopt;
  HttpResponse& response = fetched->response;
  FoundObject found;
  found.object.name = files->name_of(path);
  // Of an empty file there is no part.
  if (response.status == 416 && response.whole_size_bytes().value_or(0) == 0) return found;
  if (!response.is_success()) throw files->error_of(response, "GET " + path);
  found.object.size_bytes = whole_size_of(response, found.object.name);
  found.beginning = std::move(response.text);
  if (!fetched->xet_hash.empty()) found.object.identity = fmt::format("{} {}", found.object.name, fetched->xet_hash);
  found.object.stop = files->http().stop();
  const auto ranges = std::make_shared<HubRanges>(files, path, *fetched, found.object.size_bytes);
  found.object.fetch = [ranges](std::uint64_t offset, std::uint64_t size, const RemoteObject::Sink& sink) {
    ranges->fetch(offset, size, sink);
  };
  return found;
}

}  // namespace wdelta
