// SPDX-License-Identifier: Apache-2.0
#include "store/http/http_client.hpp"

#include "store/http/retry.hpp"
#include "store/http/url.hpp"
#include "store/percent.hpp"
#include "store/tiny_server.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <mutex>
#include <thread>

namespace wdelta {

using testing::fault_of;
using testing::message_of;
using testing::ReceivedRequest;
using testing::TinyServer;

namespace {

NetworkOptions quick() {
  NetworkOptions options;
  options.retry_wait = std::chrono::milliseconds(1);
  options.stall_timeout = std::chrono::seconds(1);
  options.user_agent = "wdelta/test";
  return options;
}

HttpRequest get_of(const std::string& url) {
  HttpRequest request;
  request.url = url;
  return request;
}

HttpResponse send(HttpClient& client, const HttpRequest& request, Repeat repeat = Repeat::harmless) {
  return send_with_retries(
      client, [&] { return request; }, repeat);
}

}  // namespace

TEST_CASE("an answer has its status, its headers whatever their case, and its text") {
  TinyServer server([](const ReceivedRequest&) {
    return "HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n" +
           TinyServer::reply("404 Not Found", "gone", "ETag:   \"a b\"  \r\nX-Twice: 1\r\nx-twice: 2\r\n");
  });
  HttpClient client(quick(), {});
  const HttpResponse response = send(client, get_of(server.url("/a/../b%2F")));
  CHECK(response.status == 404);
  CHECK(response.text == "gone");
  CHECK(response.header_or_empty("etag") == "\"a b\"");
  CHECK(response.header_or_empty("X-TWICE") == "2");
  CHECK(response.header("x-early") == nullptr);
  REQUIRE(server.requests().size() == 1);
  CHECK(server.requests()[0].head.starts_with("GET /a/../b%2F HTTP/1.1\r\n"));
  CHECK(server.requests()[0].has("User-Agent: wdelta/test\r\n"));
}

TEST_CASE("bodies of every size are sent with their length, none of them in chunks or after a question") {
  TinyServer server([](const ReceivedRequest& request) { return TinyServer::reply("200 OK", request.body); });
  HttpClient client(quick(), {});
  for (const std::string method : {"PUT", "POST"}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{3'000'000}}) {
      CAPTURE(method);
      CAPTURE(size);
      HttpRequest request = get_of(server.url());
      request.method = method;
      request.body = HttpBody::of_text(std::string(size, 'x'));
      const HttpResponse response = send(client, request);
      CHECK(response.text.size() == size);
      const ReceivedRequest got = server.requests().back();
      CHECK(got.head.starts_with(method));
      CHECK(got.has("Content-Length: " + std::to_string(size) + "\r\n"));
      CHECK_FALSE(got.has("Transfer-Encoding"));
      CHECK_FALSE(got.has("Expect"));
    }
  }
}

TEST_CASE("a sink gets the bytes of a success and no others; what it throws comes out") {
  TinyServer server([](const ReceivedRequest& request) {
    return request.has("GET /bad") ? TinyServer::reply("403 Forbidden", "no") : TinyServer::reply("200 OK", "yes");
  });
  HttpClient client(quick(), {});
  std::string got;
  HttpRequest request = get_of(server.url("/good"));
  request.sink = [&](const HttpResponse& head, std::span<const std::uint8_t> bytes) {
    CHECK(head.status == 200);
    got += testing::text_of(bytes);
  };
  CHECK(send(client, request).text.empty());
  CHECK(got == "yes");
  request.url = server.url("/bad");
  CHECK(send(client, request).text == "no");
  CHECK(got == "yes");
  request.url = server.url("/good");
  request.sink = [](const HttpResponse&, std::span<const std::uint8_t>) {
    throw Error(Fault::corrupt, "sink", "does not like it");
  };
  CHECK(fault_of([&] { send(client, request); }) == Fault::corrupt);
  CHECK(fault_of([&] { send(client, get_of(server.url("/good"))); }) == std::nullopt);
}

TEST_CASE("a text that is longer than allowed ends the transfer") {
  TinyServer server([](const ReceivedRequest&) { return TinyServer::reply("200 OK", std::string(100'000, 'x')); });
  HttpClient client(quick(), {});
  HttpRequest request = get_of(server.url());
  request.longest_text_bytes = 99'999;
  CHECK(fault_of([&] { send(client, request); }) == Fault::network);
  request.longest_text_bytes = 100'000;
  CHECK(send(client, request).text.size() == 100'000);
}

TEST_CASE("what passes by itself is tried again, what does not is not") {
  for (const std::string status : {"408 x", "429 x", "500 x", "502 x", "503 x", "504 x", "400 x", "403 x", "412 x"}) {
    CAPTURE(status);
    std::atomic<int> count = 0;
    TinyServer server([&](const ReceivedRequest&) {
      return ++count < 3 ? TinyServer::reply(status, "no") : TinyServer::reply("200 OK", "yes");
    });
    HttpClient client(quick(), {});
    const bool is_transient = status[0] == '5' || status.starts_with("408") || status.starts_with("429");
    CHECK(send(client, get_of(server.url())).status == (is_transient ? 200 : std::stoi(status)));
    CHECK(count == (is_transient ? 3 : 1));
  }
}

TEST_CASE("tries are bounded, and the last answer is given to the caller") {
  std::atomic<int> count = 0;
  TinyServer server([&](const ReceivedRequest&) {
    ++count;
    return TinyServer::reply("503 Slow Down", "busy", "Retry-After: 0\r\n");
  });
  HttpClient client(quick(), {});
  const HttpResponse response = send(client, get_of(server.url()));
  CHECK(response.status == 503);
  CHECK(response.text == "busy");
  CHECK(count == 7);
}

TEST_CASE("a write that must not happen twice is repeated only where the server has not begun") {
  std::string answer;
  std::mutex mutex;  // of the answer: the server has threads of its own
  std::atomic<int> count = 0;
  TinyServer server([&](const ReceivedRequest&) {
    const std::lock_guard lock(mutex);
    return ++count == 1 ? answer : TinyServer::reply("200 OK", "");
  });
  HttpClient client(quick(), {});
  HttpRequest request = get_of(server.url());
  request.method = "POST";
  request.body = HttpBody::of_text("x");
  const auto tries_after = [&](const std::string& first) {
    {
      const std::lock_guard lock(mutex);
      answer = first;
      count = 0;
    }
    fault_of([&] { send(client, request, Repeat::if_not_seen); });
    return count.load();
  };
  CHECK(tries_after("!close") == 1);
  CHECK(tries_after("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf!close") == 1);
  CHECK(tries_after(TinyServer::reply("500 x", "")) == 1);
  CHECK(tries_after(TinyServer::reply("503 x", "")) == 1);  // a proxy's, of a server that was lost in the midst of it
  CHECK(tries_after(TinyServer::reply("429 x", "")) == 2);
}

TEST_CASE("a body cut short is no answer") {
  std::atomic<int> count = 0;
  TinyServer server([&](const ReceivedRequest&) -> std::string {
    if (++count < 3) return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf!close";
    return TinyServer::reply("200 OK", "0123456789");
  });
  HttpClient client(quick(), {});
  CHECK(send(client, get_of(server.url())).text == "0123456789");
  CHECK(count == 3);
}

TEST_CASE("a body that is cut short far on is tried again without end only while that leads further") {
  std::atomic<int> count = 0;
  TinyServer server([&](const ReceivedRequest&) {
    ++count;
    return "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + std::string(300'000, 'x') + "!close";
  });
  HttpClient client(quick(), {});
  const auto tries = [&](const std::function<HttpRequest()>& request) {
    count = 0;
    CHECK(fault_of([&] { send_with_retries(client, request, Repeat::harmless); }) == Fault::network);
    return count.load();
  };
  CHECK(tries([&] { return get_of(server.url()); }) == 7);
  std::uint64_t begun = 0;
  CHECK(tries([&] {
          HttpRequest request = get_of(server.url());
          const std::uint64_t begin = 300'000 * std::min<std::uint64_t>(begun++, 30);  // then it stands still
          request.headers.push_back(range_header({begin, 1'000'000}));
          return request;
        }) == 29 + 7);
  // The last of the tries is the first that leads further.
  count = 0;
  begun = 0;
  TinyServer late([&](const ReceivedRequest&) -> std::string {
    if (++count == 9) return TinyServer::reply("200 OK", "done");
    if (count != 7) return TinyServer::reply("503 x", "");
    return "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n" + std::string(300'000, 'x') + "!close";
  });
  const auto going_on = [&] {
    HttpRequest request = get_of(late.url());
    request.headers.push_back(range_header({300'000 * (count >= 7 ? 1UL : 0UL), 1'000'000}));
    return request;
  };
  CHECK(send_with_retries(client, going_on, Repeat::harmless).text == "done");
}

TEST_CASE("a server that stands still, or is not there, is a network failure that names it") {
  TinyServer server([](const ReceivedRequest&) { return "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nha!stall"; });
  NetworkOptions options = quick();
  options.stall_timeout = std::chrono::seconds(0);
  HttpClient client(options, {});
  HttpRequest request = get_of(server.url("/here?signature=secret"));
  request.secret_headers = {{"Authorization", "Bearer hidden"}};
  const std::string message = message_of([&] { send(client, request); });
  CHECK(message.find("/here: ") != std::string::npos);
  CHECK(message.find("secret") == std::string::npos);
  CHECK(message.find("hidden") == std::string::npos);
  CHECK(server.requests()[0].has("Authorization: Bearer hidden\r\n"));
  CHECK(fault_of([&] { send(client, get_of("http://127.0.0.1:1/")); }) == Fault::network);
}

TEST_CASE("a stop ends a transfer at once, and so it does a wait") {
  const auto stops_quickly = [](const std::string& answer) {
    TinyServer server([&](const ReceivedRequest&) { return answer; });
    std::stop_source stop;
    NetworkOptions options = quick();
    options.stall_timeout = std::chrono::seconds(600);
    HttpClient client(options, {1, nullptr, stop.get_token()});
    std::jthread stopper([&] {
      while (server.requests().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      stop.request_stop();
    });
    CHECK(fault_of([&] { send(client, get_of(server.url())); }) == Fault::interrupted);
  };
  stops_quickly("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nha!stall");
  stops_quickly(TinyServer::reply("429 x", "", "Retry-After: 600\r\n"));
}

TEST_CASE("nothing is sent when offline") {
  TinyServer server([](const ReceivedRequest&) { return TinyServer::reply("200 OK", ""); });
  NetworkOptions options = quick();
  options.offline = true;
  HttpClient client(options, {});
  CHECK(fault_of([&] { send(client, get_of(server.url())); }) == Fault::network);
  CHECK(server.requests().empty());
}

TEST_CASE("a rate limit holds all transfers together back") {
  TinyServer server([](const ReceivedRequest&) { return TinyServer::reply("200 OK", std::string(50'000, 'x')); });
  NetworkOptions options = quick();
  options.bytes_per_second = 500'000;
  HttpClient client(options, {});
  const auto begin = std::chrono::steady_clock::now();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&] { send(client, get_of(server.url())); });
  }
  // The first piece passes at once.
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(270));
}

TEST_CASE("the wait that a server asks for is read from either header") {
  const auto waits = [](std::vector<HttpHeader> headers) -> long long {
    const auto wait = wait_asked_for({429, std::move(headers), ""}, 784'111'777);
    return wait ? wait->count() / 1000 : -1;
  };
  CHECK(waits({}) == -1);
  CHECK(waits({{"RateLimit", "\"api\";r=0;t=55"}, {"Retry-After", "3"}}) == 56);
  CHECK(waits({{"RateLimit", "\"api\";r=7;t=55"}, {"Retry-After", "3"}}) == 3);
  CHECK(waits({{"RateLimit", "\"api\";r=0;t="}}) == -1);
  CHECK(waits({{"RateLimit", ""}}) == -1);
  CHECK(waits({{"Retry-After", "soon"}}) == -1);
  CHECK(waits({{"Retry-After", "-5"}}) == -1);
  for (const char* const far :
       {"9300000000000000", "9223372036854775807", "99999999999999999999999", "Sun, 06 Nov 9994 08:49:40 GMT"}) {
    CHECK(waits({{"Retry-After", far}}) > 1'000'000);
    if (far[0] == '9') CHECK(waits({{"RateLimit", std::string("\"api\";r=0;t=") + far}}) > 1'000'000);
  }
  CHECK(waits({{"Retry-After", "Sun, 06 Nov 1994 08:49:40 GMT"}}) == 3);
  CHECK(waits({{"Retry-After", "Sun, 06 Nov 1994 08:49:00 GMT"}}) == 0);
}

TEST_CASE("a redirect leaves the secrets behind and does not lead from https to http or elsewhere") {
  HttpRequest request = get_of("https://hub.example/a/b?x=1");
  request.headers = {{"Range", "bytes=0-9"}};
  request.secret_headers = {{"Authorization", "Bearer hidden"}};
  const auto next = [&](const std::string& location) {
    return redirected(request, {302, {{"Location", location}}, ""});
  };
  CHECK(next("https://cdn.example/c?signature=1").url == "https://cdn.example/c?signature=1");
  CHECK(next("/c").url == "https://hub.example/c");
  CHECK(next("c").url == "https://hub.example/a/c");
  CHECK(next("/c").secret_headers.empty());
  CHECK(next("/c").headers.size() == 1);
  for (const std::string location : {"", "http://hub.example/a", "ftp://hub.example/", "file:///etc/passwd", "http:"}) {
    CAPTURE(location);
    CHECK(fault_of([&] { next(location); }) == Fault::network);
  }
  request.url = "http://127.0.0.1:1/";
  CHECK(next("http://127.0.0.1:2/x").url == "http://127.0.0.1:2/x");
}

TEST_CASE("a URL is shown without what may be secret in it") {
  CHECK(shown_url("https://user:password@host:1/a@b?sig=x#y") == "https://host:1/a@b");
  CHECK(shown_url("https://host") == "https://host");
  CHECK(shown_url("user:password@host/a") == "host/a");
  CHECK(origin_of("https://Host.example/a") == origin_of("https://host.example:443/b?c"));
  CHECK(origin_of("http://host/") != origin_of("https://host/"));
  CHECK(host_of("http://127.0.0.1:9000/a") == "127.0.0.1:9000");
  CHECK(host_of("https://s3.hf.co/ns") == "s3.hf.co");
  CHECK(fault_of([] { origin_of("ftp://host/"); }) == Fault::usage);
  CHECK(fault_of([] { origin_of("no url"); }) == Fault::usage);
}

TEST_CASE("percent-encoding is what SigV4 wants, and comes back") {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  for (const Slashes slashes : {Slashes::kept, Slashes::encoded}) {
    CHECK(percent_decoded(percent_encoded(all, slashes)) == all);
  }
  CHECK(percent_encoded("a/b=c+d @:%~-_.", Slashes::kept) == "a/b%3Dc%2Bd%20%40%3A%25~-_.");
  CHECK(percent_encoded("a/b", Slashes::encoded) == "a%2Fb");
  for (const std::string bad : {"%", "%1", "%zz", "a%2"}) CHECK(percent_decoded(bad) == std::nullopt);
}

TEST_CASE("a part is the one that was asked for, of what is known of the whole, or the network's fault") {
  const auto part = [](const std::string& content_range, const std::string& text = "abc") {
    HttpResponse response{206, {}, text};
    if (!content_range.empty()) response.headers.push_back({"Content-Range", content_range});
    return response;
  };
  require_part(part("bytes 5-7/100"), 5, 100, "object");
  require_part(part("bytes 5-7/100"), 5, std::nullopt, "object");
  for (const char* other : {"bytes 0-2/100", "bytes 6-8/100", "bytes 5-7/99", "bytes 5-7/*", "bytes */100",
                            "items 5-7/100", "bytes 5-7", "bytes -7/100", ""}) {
    CAPTURE(other);
    CHECK(fault_of([&] { require_part(part(other), 5, 100, "object"); }) == Fault::network);
  }
  CHECK(whole_size_of({200, {}, "abc"}, "object") == 3);
  CHECK(whole_size_of({200, {{"Content-Range", "bytes 0-2/9"}}, "abc"}, "object") == 9);
  CHECK(whole_size_of(part("bytes 0-2/3"), "object") == 3);
  CHECK(whole_size_of(part("bytes 0-2/50000000000000"), "object") == 50'000'000'000'000);
  for (const char* bad : {"bytes 0-2/*", "bytes 0-2/2", "bytes 1-3/9", "bytes 0-2/281474976710656",
                          "bytes 0-2/18446744073709551615", "bytes 0-2/18446744073709551616", ""}) {
    CAPTURE(bad);
    CHECK(fault_of([&] { whole_size_of(part(bad), "object"); }) == Fault::network);
  }
}

}  // namespace wdelta
