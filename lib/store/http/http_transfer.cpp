// SPDX-License-Identifier: Apache-2.0
#include "store/http/http_transfer.hpp"

#include "base/ascii.hpp"
#include "store/http/libcurl.hpp"

#include <algorithm>
#include <charconv>

namespace wdelta {

namespace {

constexpr std::uint64_t k_longest_headers_bytes = 512 << 10;  // a token may be 64,000 characters long

}  // namespace

std::size_t HttpTransfer::take_header(std::string_view line) {
  moved();
  header_bytes += line.size();
  if (header_bytes > k_longest_headers_bytes) return 0;
  if (line.starts_with("HTTP/")) {
    // A new answer: what came before it was an interim one.
    outcome.response.headers.clear();
    const std::size_t blank = line.find(' ');
    const std::string_view code = blank == std::string_view::npos ? "" : line.substr(blank + 1, 3);
    std::from_chars(code.data(), code.data() + code.size(), outcome.response.status);
    return line.size();
  }
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos) {
    outcome.response.headers.push_back(
        {std::string(trimmed(line.substr(0, colon))), std::string(trimmed(line.substr(colon + 1)))});
  }
  return line.size();
}

std::size_t HttpTransfer::take_body(std::span<const std::uint8_t> bytes) {
  rate_limit.wait_for(bytes.size(), stop);
  moved();
  outcome.received_bytes += bytes.size();
  try {
    const int status = outcome.response.status;
    if (request.sink && (status == 200 || status == 206)) {
      request.sink(outcome.response, bytes);
    } else if (outcome.response.text.size() + bytes.size() > request.longest_text_bytes) {
      is_text_too_long = true;
      return 0;
    } else {
      outcome.response.text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  } catch (...) {
    thrown = std::current_exception();
    return 0;
  }
  return bytes.size();
}

std::size_t HttpTransfer::give_body(std::span<std::uint8_t> room) {
  const HttpBody& body = *request.body;
  const auto piece =
      room.first(static_cast<std::size_t>(std::min<std::uint64_t>(room.size(), body.size_bytes - sent_bytes)));
  if (piece.empty()) return 0;
  try {
    body.reader->read_at(body.offset + sent_bytes, piece);
  } catch (...) {
    thrown = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
  rate_limit.wait_for(piece.size(), stop);
  moved();
  sent_bytes += piece.size();
  if (body.on_sent) body.on_sent(sent_bytes);
  return piece.size();
}

int HttpTransfer::seek_body(std::uint64_t offset) {
  if (offset > request.body->size_bytes) return CURL_SEEKFUNC_FAIL;
  sent_bytes = offset;
  return CURL_SEEKFUNC_OK;
}

void HttpTransfer::attach(CURL* easy) {
  using Write = std::size_t (*)(char*, std::size_t, std::size_t, void*);
  const Write on_header = [](char* line, std::size_t, std::size_t size, void* self) {
    return static_cast<HttpTransfer*>(self)->take_header({line, size});
  };
  const Write on_body = [](char* bytes, std::size_t, std::size_t size, void* self) {
    return static_cast<HttpTransfer*>(self)->take_body({reinterpret_cast<const std::uint8_t*>(bytes), size});
  };
  libcurl().easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
  libcurl().easy_setopt(easy, CURLOPT_HEADERDATA, this);
  libcurl().easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
  libcurl().easy_setopt(easy, CURLOPT_WRITEDATA, this);
  if (!request.body) return;
  const Write on_read = [](char* room, std::size_t count, std::size_t size, void* self) {
    return static_cast<HttpTransfer*>(self)->give_body({reinterpret_cast<std::uint8_t*>(room), count * size});
  };
  const auto on_seek = +[](void* self, curl_off_t offset, int origin) {
    return origin == SEEK_SET ? static_cast<HttpTransfer*>(self)->seek_body(static_cast<std::uint64_t>(offset))
                              : CURL_SEEKFUNC_CANTSEEK;
  };
  libcurl().easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
  libcurl().easy_setopt(easy, CURLOPT_READDATA, this);
  libcurl().easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek);
  libcurl().easy_setopt(easy, CURLOPT_SEEKDATA, this);
}

}  // namespace wdelta
