// SPDX-License-Identifier: Apache-2.0
#include "store/http/url.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "store/http/libcurl.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

namespace wdelta {

namespace {

struct UrlDeleter {
  void operator()(CURLU* url) const { libcurl().url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

Url parsed(const std::string& text) {
  Url url(libcurl().url());
  if (!url) throw std::bad_alloc();
  const CURLUcode code = libcurl().url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME);
  if (code != CURLUE_OK)
    throw Error(Fault::usage, shown_url(text), fmt::format("is no URL: {}", libcurl().url_strerror(code)));
  return url;
}

std::string part(const Url& url, CURLUPart which, unsigned flags = 0) {
  char* text = nullptr;
  if (libcurl().url_get(url.get(), which, &text, flags) != CURLUE_OK || text == nullptr) return "";
  std::string copy = text;
  libcurl().free(text);
  return copy;
}

bool is_web(const std::string& scheme) { return scheme == "http" || scheme == "https"; }

}  // namespace

std::string shown_url(std::string_view url) {
  std::string_view shown = url.substr(0, url.find_first_of("?#"));
  const std::size_t scheme_end = shown.find("://");
  const std::size_t host = scheme_end == std::string_view::npos ? 0 : scheme_end + 3;
  const std::size_t path = std::min(shown.find('/', host), shown.size());
  const std::size_t at = shown.substr(0, path).rfind('@');
  if (at == std::string_view::npos || at < host) return std::string(shown);
  return std::string(shown.substr(0, host)) + std::string(shown.substr(at + 1));
}

std::string origin_of(const std::string& text) {
  const Url url = parsed(text);
  const std::string scheme = part(url, CURLUPART_SCHEME);
  if (!is_web(scheme)) throw Error(Fault::usage, shown_url(text), "is no http or https URL");
  return fmt::format("{}://{}:{}", scheme, ascii_lowered(part(url, CURLUPART_HOST)),
                     part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT));
}

std::string host_of(const std::string& text) {
  const Url url = parsed(text);
  const std::string port = part(url, CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  return part(url, CURLUPART_HOST) + (port.empty() ? "" : ":" + port);
}

HttpRequest redirected(const HttpRequest& request, const HttpResponse& response) {
  const std::string* location = response.header("location");
  if (location == nullptr || location->empty()) {
    throw Error(Fault::network, shown_url(request.url),
                fmt::format("answers {} and does not say where to go", response.status));
  }
  const Url url = parsed(request.url);
  const bool was_secure = part(url, CURLUPART_SCHEME) == "https";
  if (libcurl().url_set(url.get(), CURLUPART_URL, location->c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    throw Error(Fault::network, shown_url(request.url), "sends us on to what is no URL");
  }
  const std::string scheme = part(url, CURLUPART_SCHEME);
  if (!is_web(scheme) || (was_secure && scheme != "https")) {
    throw Error(Fault::network, shown_url(request.url),
                fmt::format("sends us on to {}, which is not safe", shown_url(*location)));
  }
  HttpRequest next = request;
  next.secret_headers.clear();
  next.url = part(url, CURLUPART_URL);
  return next;
}

}  // namespace wdelta
