// SPDX-License-Identifier: Apache-2.0
#include "store/hub/xet_sender.hpp"

#include "base/begin_thread.hpp"
#include "base/error.hpp"
#include "store/http/retry.hpp"
#include "store/hub/hub_answers.hpp"

#include <fmt/format.h>
#include <thread>
#include <utility>

namespace wdelta {

namespace {

/// The body of a xorb while it is sent.
class XorbReader final : public ByteReader {
 public:
  explicit XorbReader(Xorb&& xorb) : xorb_(std::move(xorb)), name_("xorb " + xorb_.hash.text()) {}

  std::uint64_t size_bytes() const override { return xorb_.body.size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    std::ranges::copy(xorb_.body.subspan(offset, bytes.size()), bytes.begin());
  }
  const std::string& name() const override { return name_; }

 private:
  Xorb xorb_;
  std::string name_;
};

// Sends a request with a token that is good; asks for a new one when it is turned away nevertheless.
HttpResponse send_with_token(HubClient& client, const std::string& method, const std::string& path,
                             const std::shared_ptr<const ByteReader>& body) {
  std::optional<std::string> rejected;
  for (;;) {
    XetToken token;
    HttpResponse response = send_with_retries(
        client.http(),
        [&] {
          token = client.write_token(rejected);
          HttpRequest request;
          request.method = method;
          request.url = token.cas_url + path;
          request.secret_headers.push_back({"Authorization", "Bearer " + token.access_token});
          if (body) {
            request.headers.push_back({"Content-Type", "application/octet-stream"});
            request.body = HttpBody{body, 0, body->size_bytes(), {}};
          }
          return request;
        },
        Repeat::harmless);
    if (response.status != 401 || rejected) return response;
    rejected = token.access_token;
  }
}

// Newer clients ask the content store for leave before each xorb; should it take none without, no retry helps.
void require_known(const HubClient& client, const HttpResponse& response, const char* what) {
  if (response.status != 404 && response.status != 410 && response.status != 501) return;
  throw Error(
      Fault::unsupported, "hf://buckets/" + client.bucket(),
      fmt::format("the Hub's content store does not take {} the way this wdelta sends them (status {})", what,
                  response.status),
      "use a newer wdelta, or the bucket's S3 gateway: s3://NAME with AWS_ENDPOINT_URL=https://s3.hf.co/NAMESPACE");
}

void send_xorb(HubClient& client, Xorb&& xorb) {
  const std::string hash = xorb.hash.text();
  const std::string path = "/v1/xorbs/default/" + hash;
  const auto body = std::make_shared<XorbReader>(std::move(xorb));
  // A push that is repeated need not send again what it sent before. Where little is saved, a question costs as much.
  constexpr std::uint64_t k_worth_asking = std::uint64_t{4} << 20;
  if (body->size_bytes() >= k_worth_asking && send_with_token(client, "HEAD", path, nullptr).is_success()) return;
  const HttpResponse response = send_with_token(client, "POST", path, body);
  require_known(client, response, "xorbs");
  if (!response.is_success()) throw client.error_of(response, "POST xorb " + hash);
}

}  // namespace

void XetSender::xorb(Xorb&& xorb) {
  while (in_flight_.size() >= k_most_in_flight) {
    auto oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    oldest.get();
  }
  in_flight_.push_back(
      begin_aside([client = client_, sent = std::move(xorb)]() mutable { send_xorb(*client, std::move(sent)); }));
}

void XetSender::wait() {
  while (!in_flight_.empty()) {
    auto oldest = std::move(in_flight_.front());
    in_flight_.pop_front();
    oldest.get();
  }
}

void XetSender::shard(std::vector<std::uint8_t>&& bytes) {
  wait();
  const auto body = std::make_shared<MemoryReader>(std::move(bytes), "shard");
  constexpr int k_tries = 4;
  for (int attempt = 1;; ++attempt) {
    HttpResponse response = send_with_token(*client_, "POST", "/v2/shards", body);
    if (response.status == 404 || response.status == 501) {
      response = send_with_token(*client_, "POST", "/v1/shards", body);
    }
    require_known(*client_, response, "shards");
    if (!response.is_success()) throw client_->error_of(response, "POST shard");
    const XetShardAnswer answer = xet_shard_answer_from(response.text, "hf://buckets/" + client_->bucket());
    if (answer.accepted) return;
    if (!answer.retryable || attempt == k_tries) {
      throw Error(Fault::network, "hf://buckets/" + client_->bucket(),
                  fmt::format("the Hub's content store did not take a shard: {}", answer.message), "run this again");
    }
    sleep_until(std::chrono::steady_clock::now() + client_->http().options().retry_wait * attempt,
                client_->http().stop());
  }
}

}  // namespace wdelta
