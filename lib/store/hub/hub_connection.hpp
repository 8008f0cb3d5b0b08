// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "store/access.hpp"
#include "store/http/http_client.hpp"
#include "store/http/retry.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace wdelta {

/// Files of a page of a listing; also lines of a batch, and paths looked up at once.
inline constexpr std::size_t k_hub_page_files = 1000;

/// What the Hub is asked over its REST interface.
struct HubQuestion {
  std::string method = "GET";
  std::string path;  ///< with its query
  std::string body;
  std::string content_type;
};

/// Bytes of a file, or why there are none.
struct HubFetched {
  HttpResponse response;
  /// Where it came from: the Hub's own store, signed for a while, or an endpoint that has the bytes itself.
  std::string url;
  std::vector<HttpHeader> secret_headers;  ///< that this wants: the token where it is the endpoint's own
  std::string xet_hash;                    ///< of the file, where the Hub says it
};

/// Asks the Hub in somebody's name. The token goes to the Hub alone, whoever redirects. Safe to use from several
/// threads.
class HubConnection {
 public:
  HubConnection(HubAccess access, std::shared_ptr<HttpClient> http)
      : access_(std::move(access)), http_(std::move(http)) {}

  const HubAccess& access() const { return access_; }
  HttpClient& http() const { return *http_; }

  /// The answer, whatever its status. Goes where the Hub sends it as long as that is the Hub: what was renamed.
  HttpResponse ask(const HubQuestion& question, Repeat repeat = Repeat::harmless) const;
  /// Fetches from `path`: an answer of status 200, 206, 416 or one of failure. `make_request` is called for every try
  /// and every hop, and leaves URL and token to this.
  HubFetched fetch(const std::string& path, const std::function<HttpRequest()>& make_request) const;

 private:
  HttpRequest request_of(const HubQuestion& question) const;

  HubAccess access_;
  std::shared_ptr<HttpClient> http_;
};

/// For who asked an endpoint that sends its questions on to a URL on another host. A token goes to no other host than
/// the one that it was meant for.
std::string hint_to_move(const std::string& url);

/// Files on the Hub, to be read: those of a bucket, or of a model at a commit.
class HubFiles {
 public:
  virtual ~HubFiles() = default;
  /// What messages call the file at `path`.
  virtual std::string name_of(const std::string& path) const = 0;
  /// Nothing when there is no such file; else an answer of status 200, 206 or 416.
  virtual std::optional<HubFetched> fetch(const std::string& path,
                                          const std::function<HttpRequest()>& make_request) const = 0;
  /// What a failed answer is to be called.
  virtual Error error_of(const HttpResponse& response, const std::string& what) const = 0;
  virtual HttpClient& http() const = 0;
};

}  // namespace wdelta
