// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/http/http_client.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace wdelta {

/// Whether a request may reach the server twice.
enum class Repeat {
  harmless,    ///< reads, and writes that come to the same
  if_not_seen  ///< only while the server cannot have acted on it: no connection came about, or it answered 429
};

/// Sends what `make_request` makes, anew for every try (a signature has a time, a range begins where the last try broke
/// off), until an answer comes that another try would not better, or a bounded number of tries is used up: a broken
/// transfer, 408, 429, 500, 502, 503, 504. A try that brought much of a body does not count where the next one asks for
/// what follows it. Waits in between as the server says (Retry-After, RateLimit), else longer from try to try. Returns
/// the last answer, whatever its status; throws network when there was none.
HttpResponse send_with_retries(HttpClient& client, const std::function<HttpRequest()>& make_request, Repeat repeat);

/// How long the server wants to be left alone; nothing when it does not say. `now_s` in seconds since 1970.
std::optional<std::chrono::milliseconds> wait_asked_for(const HttpResponse& response, std::int64_t now_s);

}  // namespace wdelta
