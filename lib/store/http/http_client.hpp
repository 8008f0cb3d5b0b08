// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "store/access.hpp"
#include "store/http/http.hpp"
#include "store/http/rate_limit.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

class HttpConnection;

/// Why a transfer brought no whole answer.
struct HttpFailure {
  enum class Kind {
    unreachable,  ///< no connection came about: the server has seen nothing of the request
    broken,       ///< it ended early or stood still; whether the server acted on it is unknown
    refused       ///< another try would end the same: a certificate, an answer that is no HTTP
  };
  Kind kind;
  std::string what;  ///< for a message
  std::string hint;
};

/// What came of one try.
struct HttpOutcome {
  HttpResponse response;
  std::optional<HttpFailure> failure;  ///< with it, the response is what had arrived by then
  std::uint64_t received_bytes = 0;    ///< of the body
};

/// Sends requests over a small pool of connections that are kept open: at most NetworkOptions::transfers at a time,
/// others wait for their turn. Safe to use from several threads. Follows no redirect, repeats nothing.
class HttpClient {
 public:
  HttpClient(NetworkOptions options, Execution execution);
  HttpClient(const HttpClient&) = delete;
  ~HttpClient();

  /// One try. Throws interrupted as soon as a stop is asked for, network when offline, and what the sink throws.
  HttpOutcome send(const HttpRequest& request);

  const NetworkOptions& options() const { return options_; }
  const std::stop_token& stop() const { return execution_.stop; }
  /// Waits, and says so as a transfer does while nothing arrives. Throws interrupted as soon as a stop is asked for.
  void wait_until(std::chrono::steady_clock::time_point moment) const;
  /// Tells the user what is no error.
  void note(const std::string& text) const;

 private:
  std::unique_ptr<HttpConnection> take_connection();
  void give_back(std::unique_ptr<HttpConnection> connection);

  NetworkOptions options_;
  Execution execution_;
  RateLimit rate_limit_;
  std::mutex mutex_;
  std::condition_variable_any turn_;
  unsigned at_work_ = 0;
  std::vector<std::unique_ptr<HttpConnection>> idle_;
};

}  // namespace wdelta
