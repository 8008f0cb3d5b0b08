// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_connection.hpp"

#include "store/http/url.hpp"

#include <fmt/format.h>

namespace wdelta {

namespace {
constexpr int k_most_hops = 5;
constexpr int k_most_links = 3;

bool is_redirect(const HttpResponse& response) {
  return response.status >= 300 && response.status < 400 && response.header("location") != nullptr;
}
}  // namespace

std::string hint_to_move(const std::string& url) {
  const std::string place = shown_url(url);
  return fmt::format("the endpoint sends requests on to {}: if that is the Hub, set HF_ENDPOINT to it",
                     place.substr(0, place.find('/', place.find("://") + 3)));
}

HttpRequest HubConnection::request_of(const HubQuestion& question) const {
  HttpRequest request;
  request.method = question.method;
  request.url = access_.endpoint + question.path;
  if (!access_.token.empty()) request.secret_headers.push_back({"Authorization", "Bearer " + access_.token});
  if (!question.content_type.empty()) request.headers.push_back({"Content-Type", question.content_type});
  if (question.method == "POST") request.body = HttpBody::of_text(question.body);
  return request;
}

HttpResponse HubConnection::ask(const HubQuestion& question, Repeat repeat) const {
  std::string url = request_of(question).url;
  for (int hops = 0;; ++hops) {
    HttpRequest sent;
    const HttpResponse response = send_with_retries(
        *http_,
        [&] {
          sent = request_of(question);
          sent.url = url;
          return sent;
        },
        repeat);
    if (!is_redirect(response) || hops == k_most_hops) return response;
    const std::string next = redirected(sent, response).url;
    if (origin_of(next) != origin_of(access_.endpoint)) return response;
    url = next;
  }
}

HubFetched HubConnection::fetch(const std::string& path, const std::function<HttpRequest()>& make_request) const {
  const std::string hub = origin_of(access_.endpoint);
  const HttpRequest asked = request_of({"GET", path, "", ""});
  HttpRequest next = asked;
  std::string xet_hash;
  std::string moved_to;
  int links = 0;
  for (int hops = 0; hops <= k_most_hops;) {
    HttpRequest sent;
    const HttpResponse response = send_with_retries(
        *http_,
        [&] {
          sent = make_request();
          sent.url = next.url;
          sent.secret_headers = next.secret_headers;
          return sent;
        },
        Repeat::harmless);
    if (xet_hash.empty()) xet_hash = response.header_or_empty("x-xet-hash");
    // Where the Hub sends us is signed for a while only, which tries and waits between them may outlast. That a thing
    // is not there at all only the Hub itself can say.
    const bool is_refused = response.status == 401 || response.status == 403 || response.status == 404;
    if (is_refused && origin_of(next.url) != hub) {
      if (++links == k_most_links)
        throw Error(Fault::network, shown_url(path),
                    fmt::format("the links to it that the Hub gives are refused (status {})", response.status),
                    moved_to.empty() ? "try again later" : hint_to_move(moved_to));
      next = asked;
      hops = 0;
      continue;
    }
    if (response.status < 300 || response.status >= 400) return {response, next.url, next.secret_headers, xet_hash};
    next = redirected(sent, response);
    // The same question elsewhere, where the token does not go: this is no link, the endpoint is another one.
    if (origin_of(next.url) != hub && shown_url(next.url).ends_with(shown_url(path))) moved_to = next.url;
    ++hops;
    next.secret_headers.clear();
    if (origin_of(next.url) == hub) next.secret_headers = asked.secret_headers;
  }
  throw Error(Fault::network, shown_url(path), "the Hub redirects in a circle");
}

}  // namespace wdelta
