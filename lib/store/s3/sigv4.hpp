// SPDX-License-Identifier: Apache-2.0
// Signature Version 4 of AWS, in headers, as S3 wants it: the path is encoded once and never tidied. libcurl has one of
// its own, which leaves the query unsorted and differs from version to version.
#pragma once

#include "store/access.hpp"
#include "store/http/http.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// SHA-256 in hexadecimal digits.
std::string sha256_hex(std::span<const std::uint8_t> bytes);
std::string sha256_hex(std::string_view text);
/// The same of what a request carries; of nothing when it carries nothing.
std::string sha256_hex(const HttpBody& body);
/// MD5 in hexadecimal digits: what most stores call an object's or a part's ETag. No protection against anybody.
std::string md5_hex(const HttpBody& body);

/// For bodies whose bytes TLS protects already.
inline constexpr const char* k_unsigned_payload = "UNSIGNED-PAYLOAD";

struct QueryParameter {
  std::string name;
  std::string value;
};
/// "?a=1&b=" in the order and encoding that is signed; empty for none.
std::string canonical_query(std::vector<QueryParameter> parameters);

struct SigningTime {
  std::int64_t seconds = 0;  ///< since 1970
};

/// Signs a request whose URL has its path percent-encoded and its query as canonical_query() makes it. All headers that
/// it has by now are signed; those of the signature become secret headers. Without a key nothing is done.
void sign(HttpRequest& request, const S3Access& access, const std::string& payload_sha256, SigningTime time);

}  // namespace wdelta
