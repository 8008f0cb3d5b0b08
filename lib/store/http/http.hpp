// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

struct HttpHeader {
  std::string name;
  std::string value;
};

/// What a request carries: a range of a reader.
struct HttpBody {
  std::shared_ptr<const ByteReader> reader;
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
  /// Told how many bytes of it were given away so far; fewer than before when it is sent again.
  std::function<void(std::uint64_t sent_bytes)> on_sent;

  static HttpBody of_text(std::string_view text);
};

struct HttpResponse {
  int status = 0;
  std::vector<HttpHeader> headers;
  std::string text;  ///< the body, unless it went to a sink

  bool is_success() const { return status >= 200 && status < 300; }
  /// Whether the body is a part of the whole: some services send one that says so with status 200 (rclone serve s3).
  bool is_part() const { return status == 206 || (status == 200 && header("content-range") != nullptr); }
  /// The value of the last header of that name, whatever its case; null when there is none.
  const std::string* header(std::string_view name) const;
  /// The same; empty when there is none.
  std::string header_or_empty(std::string_view name) const;
  /// The values of all headers of that name, with commas in between, which say the same as one header (RFC 9110, 5.3).
  std::string all_values(std::string_view name) const;
  /// What Content-Range says of the whole's size; nothing when it does not.
  std::optional<std::uint64_t> whole_size_bytes() const;
  /// Which byte Content-Range says is the first of the body; nothing when it does not.
  std::optional<std::uint64_t> first_byte() const;
};

/// Takes the body of an answer piece by piece, in order. `head` has status and headers and no text. What it throws ends
/// the transfer and comes out of send().
using HttpSink = std::function<void(const HttpResponse& head, std::span<const std::uint8_t> bytes)>;

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<HttpHeader> headers;
  /// Those that no message may show and that no other host may get: a redirect leaves them behind.
  std::vector<HttpHeader> secret_headers;
  std::optional<HttpBody> body;
  /// Gets the body where the status is 200 or 206; every other answer is text.
  HttpSink sink;
  /// Over a connection of its own: what a kept one lost when it ended libcurl sends again by itself, unseen.
  bool is_sent_once = false;
  /// A longer text ends the transfer.
  std::uint64_t longest_text_bytes = std::uint64_t{64} << 20;
};

/// Bytes of an object; at least one.
struct HttpRange {
  std::uint64_t offset = 0;
  std::uint64_t size_bytes = 0;
};
/// "Range: bytes=0-9"
HttpHeader range_header(HttpRange range);
/// Throws network, about `object`, unless an answer with a part says that it begins at byte `offset` and, where that is
/// known, that the whole has `whole_size_bytes`. Caches and proxies are known to send another part than was asked for;
/// taken for the right one it would be taken for damage.
void require_part(const HttpResponse& response, std::uint64_t offset, std::optional<std::uint64_t> whole_size_bytes,
                  const std::string& object);
/// How large the whole is, by an answer with its beginning, or with all of it, whose text is here. Throws network,
/// about `object`, when the answer does not say so, or says what cannot be.
std::uint64_t whole_size_of(const HttpResponse& response, const std::string& object);

}  // namespace wdelta
