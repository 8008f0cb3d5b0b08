// SPDX-License-Identifier: Apache-2.0
#include "store/s3/sigv4.hpp"

#include "base/ascii.hpp"
#include "store/http/openssl_hash.hpp"
#include "store/http/url.hpp"
#include "store/percent.hpp"

#include <algorithm>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <map>

namespace wdelta {

namespace {

std::string hex_of(HashKind kind, const HttpBody& body) {
  OpensslHash hash(kind);
  std::vector<std::uint8_t> piece(static_cast<std::size_t>(std::min<std::uint64_t>(body.size_bytes, 1 << 20)));
  for (std::uint64_t done = 0; done < body.size_bytes;) {
    const auto part = std::span(piece).first(std::min<std::uint64_t>(piece.size(), body.size_bytes - done));
    body.reader->read_at(body.offset + done, part);
    hash.update(part);
    done += part.size();
  }
  return hash.finish();
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// No blanks around it, single ones inside.
std::string header_value(std::string_view value) {
  std::string tidy;
  for (const char c : value) {
    if (c == ' ' && (tidy.empty() || tidy.back() == ' ')) continue;
    tidy += c;
  }
  if (tidy.ends_with(' ')) tidy.pop_back();
  return tidy;
}

}  // namespace

std::string sha256_hex(std::span<const std::uint8_t> bytes) {
  OpensslHash hash(HashKind::sha256);
  hash.update(bytes);
  return hash.finish();
}
std::string sha256_hex(std::string_view text) { return sha256_hex(bytes_of(text)); }
std::string sha256_hex(const HttpBody& body) { return hex_of(HashKind::sha256, body); }
std::string md5_hex(const HttpBody& body) { return hex_of(HashKind::md5, body); }

std::string canonical_query(std::vector<QueryParameter> parameters) {
  for (QueryParameter& each : parameters) {
    each.name = percent_encoded(each.name, Slashes::encoded);
    each.value = percent_encoded(each.value, Slashes::encoded);
  }
  std::ranges::sort(parameters, [](const QueryParameter& a, const QueryParameter& b) {
    return a.name != b.name ? a.name < b.name : a.value < b.value;
  });
  std::string query;
  for (const QueryParameter& each : parameters) {
    query += fmt::format("{}{}={}", query.empty() ? "?" : "&", each.name, each.value);
  }
  return query;
}

void sign(HttpRequest& request, const S3Access& access, const std::string& payload_sha256, SigningTime time) {
  if (access.key_id.empty()) return;
  const std::string now = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(static_cast<std::time_t>(time.seconds)));
  const std::string day = now.substr(0, 8);
  request.secret_headers.push_back({"x-amz-date", now});
  request.secret_headers.push_back({"x-amz-content-sha256", payload_sha256});
  if (!access.session_token.empty()) request.secret_headers.push_back({"x-amz-security-token", access.session_token});

  std::map<std::string, std::string> headers = {{"host", host_of(request.url)}};
  for (const auto* list : {&request.headers, &request.secret_headers}) {
    for (const HttpHeader& each : *list) headers[ascii_lowered(each.name)] = header_value(each.value);
  }
  std::string lines;
  std::string names;
  for (const auto& [name, value] : headers) {
    lines += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
  }
  const std::size_t path_begin = request.url.find('/', request.url.find("://") + 3);
  const std::size_t query_begin = request.url.find('?');
  const std::string path =
      path_begin < query_begin ? request.url.substr(path_begin, query_begin - path_begin) : std::string("/");
  const std::string query = query_begin == std::string::npos ? "" : request.url.substr(query_begin + 1);
  const std::string canonical =
      fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method, path, query, lines, names, payload_sha256);

  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, access.region);
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", now, scope, sha256_hex(canonical));
  const std::string key = hmac_sha256(
      hmac_sha256(hmac_sha256(hmac_sha256("AWS4" + access.secret, day), access.region), "s3"), "aws4_request");
  const std::string signature = hmac_sha256(key, to_sign);
  request.secret_headers.push_back(
      {"Authorization", fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={:02x}",
                                    access.key_id, scope, names, fmt::join(bytes_of(signature), ""))});
}

}  // namespace wdelta
