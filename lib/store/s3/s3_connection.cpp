// SPDX-License-Identifier: Apache-2.0
#include "store/s3/s3_connection.hpp"

#include "store/http/libcurl.hpp"
#include "store/http/rate_limit.hpp"
#include "store/http/url.hpp"
#include "store/percent.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr const char* k_credentials_hint = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

bool is_bucket_name(std::string_view name) {
  const auto is_word = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || name.size() > 255 || !is_word(name.front()) || name.find("..") != std::string_view::npos)
    return false;
  return std::ranges::all_of(name, [&](char c) { return is_word(c) || c == '-' || c == '.'; });
}

bool can_be_host(std::string_view bucket) {
  // With a dot in it, no certificate would be right.
  return bucket.size() >= 3 && bucket.size() <= 63 && std::ranges::all_of(bucket, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
         });
}

std::string base_url_of(const std::string& bucket, const S3Access& access) {
  const bool is_aws = access.endpoint.empty();
  const std::string endpoint = is_aws ? fmt::format("https://s3.{}.amazonaws.com{}", access.region,
                                                    access.region.starts_with("cn-") ? ".cn" : "")
                                      : access.endpoint;
  try {
    origin_of(endpoint);
  } catch (const Error& error) {
    throw Error(error.fault(), error.object(), error.what(), "an endpoint is such as https://s3.example.com");
  }
  const bool by_host = access.addressing == S3Addressing::virtual_host ||
                       (access.addressing == S3Addressing::automatic && is_aws && can_be_host(bucket));
  if (!by_host) return endpoint + "/" + bucket;
  const std::size_t host = endpoint.find("://") + 3;
  return endpoint.substr(0, host) + bucket + "." + endpoint.substr(host);
}

bool is_timeout(const S3Response& response) {
  return response.http.status == 400 && response.error.code == "RequestTimeout";
}

bool is_protected(const std::string& url) {
  constexpr std::string_view k_safe[] = {"https://", "http://127.0.0.1:", "http://127.0.0.1/",
                                         "http://[::1]:", "http://[::1]/"};
  return std::ranges::any_of(k_safe, [&](std::string_view beginning) { return url.starts_with(beginning); });
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

S3Connection::S3Connection(std::string bucket, const Access& access, const Execution& execution)
    : bucket_(std::move(bucket)), access_(access.s3), client_(access.network, execution) {
  if (!is_bucket_name(bucket_))
    throw Error(Fault::usage, "s3://" + bucket_, "names no bucket",
                "a repository on S3 is s3://BUCKET or s3://BUCKET/PREFIX");
  base_url_ = base_url_of(bucket_, access_);
}

bool S3Connection::is_hub_gateway() const {
  const std::string origin = origin_of(base_url_);
  return origin == "https://s3.hf.co:443" || (origin.starts_with("https://") && origin.ends_with(".s3.hf.co:443"));
}

HttpRequest S3Connection::signed_request(const S3Request& request) const {
  // What TLS protects, or no wire carries, need not be read twice to be hashed.
  constexpr std::uint64_t k_largest_hashed_bytes = 8 << 20;
  HttpRequest http;
  http.method = request.method;
  http.url = base_url_ + "/" + percent_encoded(request.key, Slashes::kept) + canonical_query(request.query);
  if (request.key.empty()) http.url = base_url_ + canonical_query(request.query);
  http.headers = request.headers;
  http.body = request.body;
  http.sink = request.sink;
  http.longest_text_bytes = request.longest_text_bytes;
  const bool is_hashed = !http.body || http.body->size_bytes <= k_largest_hashed_bytes || !is_protected(base_url_);
  const std::string hash = !is_hashed ? k_unsigned_payload : sha256_hex(http.body.value_or(HttpBody{}));
  sign(http, access_, hash, {std::time(nullptr) + clock_offset_s_});
  return http;
}

// A clock that is wrong by more than 15 minutes makes every signature too old or too new.
bool S3Connection::correct_clock(const HttpResponse& response) {
  const std::time_t there = libcurl().getdate(response.header_or_empty("date").c_str(), nullptr);
  if (there < 0) return false;
  const std::int64_t offset = there - std::time(nullptr);
  constexpr std::int64_t k_same_s = 60;
  if (std::abs(offset - clock_offset_s_) < k_same_s) return false;
  clock_offset_s_ = offset;
  // Both tell whole seconds, so that either may be one ahead.
  client_.note(fmt::format("the clock of this machine and that of the store are {} minutes apart",
                           (std::abs(offset) + 30) / 60));
  return true;
}

S3Response S3Connection::send(const S3Request& request, Repeat repeat) {
  return send(request, repeat, [](S3Request&) {});
}

S3Response S3Connection::send(const S3Request& request, Repeat repeat, const std::function<void(S3Request&)>& change) {
  constexpr int k_most_redirects = 5;
  constexpr int k_most_refusals = 3;
  constexpr int k_most_timeouts = 5;
  S3Response result;
  bool is_corrected = false;
  for (int refusals = 0, timeouts = 0;;) {
    result.is_elsewhere = false;
    // Where a read is sent on to, the signature does not go along.
    HttpRequest sent;
    int redirects = 0;
    std::optional<HttpRequest> elsewhere;
    for (;;) {
      result.http = send_with_retries(
          client_,
          [&] {
            ++result.tries;
            S3Request changed = request;
            change(changed);
            sent = signed_request(changed);
            if (elsewhere) {
              sent.url = elsewhere->url;
              sent.secret_headers.clear();
            }
            return sent;
          },
          repeat);
      // Where an error says why, as for a bucket that is elsewhere, nobody takes us without a signature.
      const bool may_follow = request.method == "GET" && result.http.header("location") != nullptr &&
                              parse_s3_error(result.http.text).code.empty();
      if (!is_redirect(result.http.status) || !may_follow || redirects++ == k_most_redirects) break;
      elsewhere = redirected(sent, result.http);
      result.is_elsewhere = true;
    }
    // Where we are sent on to is good for a while only: ask the store again.
    if (result.is_elsewhere && result.http.status == 403 && ++refusals < k_most_refusals) continue;
    result.error = result.http.is_success() ? S3Error{} : parse_s3_error(result.http.text);
    // What AWS calls a bad request when a body came too slowly.
    if (repeat == Repeat::harmless && is_timeout(result) && ++timeouts < k_most_timeouts) {
      sleep_until(std::chrono::steady_clock::now() + timeouts * client_.options().retry_wait, client_.stop());
      continue;
    }
    if (result.http.status != 403 || result.error.code != "RequestTimeTooSkewed" || is_corrected) return result;
    is_corrected = true;
    if (!correct_clock(result.http)) return result;
  }
}

// Looked for first: to make one's own again is an error with some stores, and with one region of AWS puts its rights
// back to what they were.
void S3Connection::create_bucket() {
  S3Request look;
  look.method = "HEAD";
  S3Response looked = send(look);
  // That the clock is wrong, and not the rights, only an answer with a body says; then it is set, and asked again.
  if (looked.http.status == 403 && looked.error.code.empty()) {
    look.method = "GET";
    look.query = {{"list-type", "2"}, {"max-keys", "1"}};
    looked = send(look);
  }
  if (looked.http.status != 404) return;
  S3Request make;
  make.method = "PUT";
  const std::string in_region = fmt::format(
      "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
      "<LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>",
      access_.region);
  const bool may_be_elsewhere = access_.region != "us-east-1";
  make.body = HttpBody::of_text(access_.endpoint.empty() && may_be_elsewhere ? in_region : "");
  S3Response response = send(make);
  // An endpoint of AWS's by another name: what is not AWS mostly knows no regions, and refuses to be told of one.
  if (response.error.code == "IllegalLocationConstraintException" && may_be_elsewhere) {
    make.body = HttpBody::of_text(in_region);
    response = send(make);
  }
  if (response.http.is_success() || response.error.code == "BucketAlreadyOwnedByYou") return;
  const Error reason = error_of(response, bucket_);
  throw Error(reason.fault(), bucket_, fmt::format("the bucket cannot be made: {}", reason.what()),
              response.error.code == "BucketAlreadyExists"
                  ? "somebody else has that name: take another"
                  : "make it by the store's own means, and leave out --create");
}

Error S3Connection::error_of(const S3Response& response, const std::string& object) const {
  const int status = response.http.status;
  const std::string& code = response.error.code;
  // The store's own words: one line of them, not too long.
  std::string told = code.empty() ? fmt::format("status {}", status) : code;
  if (!response.error.message.empty()) told += ": " + response.error.message.substr(0, 200);
  const auto with = [&](Fault fault, const std::string& what, const std::string& hint) {
    return Error(fault, object, what, hint);
  };
  const std::string key_source = access_.key_source.empty() ? "the environment" : access_.key_source;
  if (code == "NoSuchBucket")
    return with(Fault::not_found, fmt::format("there is no bucket {} at {}", bucket_, shown_url(base_url_)),
                "check its name, AWS_ENDPOINT_URL and the region; wdelta push --create makes it");
  if (code == "InvalidAccessKeyId")
    return with(Fault::network, fmt::format("the store does not know the access key of {}", key_source),
                k_credentials_hint);
  if (code == "SignatureDoesNotMatch")
    return with(Fault::network, fmt::format("the secret of {} does not go with its access key", key_source),
                k_credentials_hint);
  if (code == "ExpiredToken" || code == "TokenRefreshRequired" || code == "InvalidToken")
    return with(Fault::network, fmt::format("the session token of {} is not valid any more", key_source),
                "get new credentials");
  if (code == "RequestTimeTooSkewed")
    return with(Fault::network, "the clocks of this machine and of the store are too far apart",
                "set this machine's clock right");
  if (code == "AuthorizationHeaderMalformed" || code == "PermanentRedirect" || is_redirect(status)) {
    const std::string region =
        response.error.region.empty() ? response.http.header_or_empty("x-amz-bucket-region") : response.error.region;
    if (code == "TemporaryRedirect" && (region.empty() || region == access_.region)) {
      return with(Fault::network,
                  fmt::format("requests for bucket {} are sent on to {} for now ({})", bucket_,
                              response.error.endpoint.empty() ? "another place" : response.error.endpoint, code),
                  "a new bucket is known everywhere after a while: try again later, or set AWS_REGION to its region");
    }
    return with(Fault::network, fmt::format("bucket {} is not in region {}", bucket_, access_.region),
                region.empty() ? "set AWS_REGION" : "set AWS_REGION=" + region);
  }
  // Before the statuses: Ceph says it with 403.
  if (status == 507 || code == "QuotaExceeded" || code == "XMinioStorageFull" || code == "TooManyBuckets")
    return with(Fault::network, fmt::format("the store is full ({})", told),
                "make room there, or have the quota raised; what was pushed so far is not lost");
  if (status == 401 || status == 403) {
    if (access_.key_id.empty())
      return with(Fault::network, fmt::format("access was denied, and there are no credentials ({})", told),
                  k_credentials_hint);
    return with(
        Fault::network, fmt::format("access was denied to the key of {} ({})", key_source, told),
        code.empty() || code == "AccessDenied" ? "its rights must include listing, reading and, to push, writing" : "");
  }
  if (code == "EntityTooLarge" || status == 413)
    return with(Fault::unsupported, fmt::format("the store does not take objects of this size ({})", told), "");
  if (status == 404 && response.is_elsewhere)
    return with(Fault::network, fmt::format("is not where the store says it is ({})", told), "try again later");
  if (status == 404) return with(Fault::not_found, fmt::format("is not there ({})", told), "");
  if (status == 501 || code == "NotImplemented")
    return with(Fault::unsupported, fmt::format("the store cannot do that ({})", told), "");
  if (status == 429 || status >= 500)
    return with(Fault::network, fmt::format("the store does not answer as it should ({})", told), "try again later");
  return with(Fault::network, fmt::format("the store refuses ({})", told), "");
}

}  // namespace wdelta
