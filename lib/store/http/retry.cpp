// SPDX-License-Identifier: Apache-2.0
#include "store/http/retry.hpp"

#include "base/error.hpp"
#include "store/http/libcurl.hpp"
#include "store/http/url.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <fmt/format.h>
#include <random>
#include <utility>

namespace wdelta {

namespace {

constexpr unsigned k_tries = 7;
// Where nothing answers at all the name is mistyped more often than the server is on its way back.
constexpr unsigned k_tries_unreachable = 4;
constexpr std::chrono::milliseconds k_longest_wait{30'000};
constexpr std::chrono::seconds k_longest_asked_for{1200};  // quotas are counted over 5 minutes
constexpr std::uint64_t k_much_bytes = 256 << 10;
constexpr long long k_most_seconds = 1'000'000'000;  // as good as any more, and no moment is too far for a clock

bool is_transient(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// The answer by which a server says that it has not even begun. 503 says so too, but a proxy that lost the server in
// the middle of it answers the same.
bool was_turned_away(int status) { return status == 429; }

bool may_repeat(const HttpOutcome& outcome, Repeat repeat) {
  if (!outcome.failure) {
    const int status = outcome.response.status;
    return is_transient(status) && (repeat == Repeat::harmless || was_turned_away(status));
  }
  switch (outcome.failure->kind) {
    case HttpFailure::Kind::unreachable:
      return true;
    case HttpFailure::Kind::broken:
      return repeat == Repeat::harmless;
    case HttpFailure::Kind::refused:
      return false;
  }
  return false;
}

// Half of it is drawn: clients that failed together must not come back together.
std::chrono::milliseconds wait_before(unsigned next_try, std::chrono::milliseconds first) {
  const unsigned doublings = std::min(next_try - 2, 10u);
  const auto whole = std::min(first * (1 << doublings), k_longest_wait);
  std::random_device device;
  std::uniform_int_distribution<long long> drawn(whole.count() / 2, whole.count());
  return std::chrono::milliseconds(drawn(device));
}

std::string reason(const HttpOutcome& outcome) {
  return outcome.failure ? outcome.failure->what : fmt::format("status {}", outcome.response.status);
}

std::string range_of(const HttpRequest& request) {
  const auto range = std::ranges::find(request.headers, "Range", &HttpHeader::name);
  return range == request.headers.end() ? "" : range->value;
}

std::optional<long long> number_behind(const std::string& text, std::string_view name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return std::nullopt;
  long long value = 0;
  const char* begin = text.data() + at + name.size();
  const auto parsed = std::from_chars(begin, text.data() + text.size(), value);
  if (parsed.ec == std::errc::result_out_of_range && *begin != '-') return k_most_seconds;
  if (parsed.ec != std::errc() || value < 0) return std::nullopt;
  return std::min(value, k_most_seconds);
}

}  // namespace

std::optional<std::chrono::milliseconds> wait_asked_for(const HttpResponse& response, std::int64_t now_s) {
  // RateLimit: "api";r=0;t=55 - so long until the window opens again.
  const std::string limit = response.header_or_empty("ratelimit");
  const auto remaining = number_behind(limit, ";r=");
  const auto seconds = number_behind(limit, ";t=");
  if (remaining == 0 && seconds) return std::chrono::seconds(*seconds + 1);
  const std::string after = response.header_or_empty("retry-after");
  if (after.empty()) return std::nullopt;
  if (const auto count = number_behind(" " + after, " ")) return std::chrono::seconds(*count);
  const std::time_t moment = libcurl().getdate(after.c_str(), nullptr);
  if (moment < 0) return std::nullopt;
  return std::chrono::seconds(std::clamp<std::int64_t>(moment - now_s, 0, k_most_seconds));
}

HttpResponse send_with_retries(HttpClient& client, const std::function<HttpRequest()>& make_request, Repeat repeat) {
  std::optional<HttpRequest> next;
  for (unsigned next_try = 2, sent = 1;; ++next_try, ++sent) {
    HttpRequest request = next ? *std::exchange(next, std::nullopt) : make_request();
    if (repeat == Repeat::if_not_seen) request.is_sent_once = true;
    HttpOutcome outcome = client.send(request);
    if (outcome.failure && outcome.received_bytes >= k_much_bytes) {
      // What goes on behind what came is another request rather than one more try of the same.
      next = make_request();
      if (range_of(*next) != range_of(request)) next_try = 2;
    }
    const bool is_unreachable = outcome.failure && outcome.failure->kind == HttpFailure::Kind::unreachable;
    const unsigned tries = is_unreachable ? k_tries_unreachable : k_tries;
    std::chrono::milliseconds wait = wait_before(next_try, client.options().retry_wait);
    if (!outcome.failure) wait = wait_asked_for(outcome.response, std::time(nullptr)).value_or(wait);
    if (!may_repeat(outcome, repeat) || next_try > tries || wait > k_longest_asked_for) {
      if (!outcome.failure) return std::move(outcome.response);
      const std::string tried = sent > 1 ? fmt::format(", after {} tries", sent) : "";
      throw Error(Fault::network, shown_url(request.url), outcome.failure->what + tried, outcome.failure->hint);
    }
    constexpr std::chrono::milliseconds k_worth_telling{3'000};
    if (wait >= k_worth_telling) {
      client.note(fmt::format("{}: {}; trying again in {} s", shown_url(request.url), reason(outcome),
                              (wait.count() + 999) / 1000));
    }
    client.wait_until(std::chrono::steady_clock::now() + wait);
  }
}

}  // namespace wdelta
