// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "store/access.hpp"
#include "store/http/http_client.hpp"
#include "store/http/retry.hpp"
#include "store/s3/s3_answers.hpp"
#include "store/s3/sigv4.hpp"

#include <atomic>
#include <string>
#include <vector>

namespace wdelta {

/// A request to a bucket, without what makes it a signed one.
struct S3Request {
  std::string method = "GET";
  std::string key;  ///< empty: the bucket itself
  std::vector<QueryParameter> query;
  std::vector<HttpHeader> headers;
  std::optional<HttpBody> body;
  HttpSink sink;
  std::uint64_t longest_text_bytes = std::uint64_t{64} << 20;
};

struct S3Response {
  HttpResponse http;
  S3Error error;              ///< empty for a success
  unsigned tries = 0;         ///< more than one: an earlier one may have had its effect
  bool is_elsewhere = false;  ///< the answer of where the store sent us on to
};

/// A bucket at an endpoint, and how to talk to it: signs, repeats, follows redirects, sets the clock right. Safe to use
/// from several threads.
class S3Connection {
 public:
  /// Throws usage for a bucket's name or an endpoint that is none.
  S3Connection(std::string bucket, const Access& access, const Execution& execution);

  /// The answer, whatever its status. Throws network when there is none.
  S3Response send(const S3Request& request, Repeat repeat = Repeat::harmless);
  /// The same; `change` is called before each try, for what depends on how far the last one came.
  S3Response send(const S3Request& request, Repeat repeat, const std::function<void(S3Request&)>& change);

  /// Makes the bucket when there is none; nobody but its owner sees what is in it. Throws what keeps it from being
  /// made.
  void create_bucket();

  /// What went wrong, in a user's words. `object` is the key or the bucket.
  Error error_of(const S3Response& response, const std::string& object) const;

  HttpClient& client() { return client_; }
  const std::string& bucket() const { return bucket_; }
  /// The bucket's URL, for telling stores apart.
  const std::string& base_url() const { return base_url_; }
  /// Whether this is the Hub's own gateway, which promises nothing to writers that come in by its other door.
  bool is_hub_gateway() const;

 private:
  HttpRequest signed_request(const S3Request& request) const;
  bool correct_clock(const HttpResponse& response);

  std::string bucket_;
  S3Access access_;
  std::string base_url_;
  HttpClient client_;
  std::atomic<std::int64_t> clock_offset_s_ = 0;  // the store's clock is so much ahead of ours
};

}  // namespace wdelta
