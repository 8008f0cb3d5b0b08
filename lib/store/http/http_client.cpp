// SPDX-License-Identifier: Apache-2.0
#include "store/http/http_client.hpp"

#include "base/error.hpp"
#include "store/http/http_connection.hpp"
#include "store/http/libcurl.hpp"
#include "store/http/url.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

HttpClient::HttpClient(NetworkOptions options, Execution execution)
    : options_(std::move(options)), execution_(std::move(execution)), rate_limit_(options_.bytes_per_second) {
  options_.transfers = std::max(1u, options_.transfers);
  // Counted by libcurl: every client may do it.
  if (libcurl().global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw Error(Fault::internal, "libcurl", "cannot be initialised");
}

HttpClient::~HttpClient() {
  idle_.clear();
  libcurl().global_cleanup();
}

std::unique_ptr<HttpConnection> HttpClient::take_connection() {
  std::unique_lock lock(mutex_);
  if (!turn_.wait(lock, execution_.stop, [this] { return at_work_ < options_.transfers; })) execution_.check_stop();
  std::unique_ptr<HttpConnection> connection;
  if (idle_.empty()) {
    connection = std::make_unique<HttpConnection>();
  } else {
    connection = std::move(idle_.back());
    idle_.pop_back();
  }
  ++at_work_;
  return connection;
}

void HttpClient::give_back(std::unique_ptr<HttpConnection> connection) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
  --at_work_;
  turn_.notify_one();
}

HttpOutcome HttpClient::send(const HttpRequest& request) {
  execution_.check_stop();
  if (options_.offline) {
    throw Error(Fault::network, shown_url(request.url), "was not asked: --offline or HF_HUB_OFFLINE forbids it",
                "without these it would be");
  }
  auto connection = take_connection();
  try {
    HttpOutcome outcome = connection->send(request, options_, rate_limit_, execution_);
    give_back(std::move(connection));
    return outcome;
  } catch (...) {
    give_back(std::move(connection));
    throw;
  }
}

void HttpClient::wait_until(std::chrono::steady_clock::time_point moment) const {
  constexpr std::chrono::milliseconds k_between_looks{500};
  for (auto now = std::chrono::steady_clock::now(); now < moment; now = std::chrono::steady_clock::now()) {
    sleep_until(std::min(moment, now + k_between_looks), execution_.stop);
    execution_.check_stop();
    if (execution_.progress != nullptr) execution_.progress->advance(0);
  }
}

void HttpClient::note(const std::string& text) const {
  if (execution_.progress != nullptr) execution_.progress->note(text);
}

}  // namespace wdelta
