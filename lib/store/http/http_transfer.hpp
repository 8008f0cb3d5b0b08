// SPDX-License-Identifier: Apache-2.0
// What libcurl calls back while a request is on its way.
#pragma once

#include "store/http/http_client.hpp"

#include <chrono>
#include <curl/curl.h>
#include <exception>

namespace wdelta {

struct HttpTransfer {
  HttpTransfer(const HttpRequest& asked, RateLimit& limit, std::stop_token token)
      : request(asked), rate_limit(limit), stop(std::move(token)) {}

  const HttpRequest& request;
  RateLimit& rate_limit;
  std::stop_token stop;
  HttpOutcome outcome;
  std::uint64_t sent_bytes = 0;
  std::uint64_t header_bytes = 0;
  std::exception_ptr thrown;  ///< by a sink or the body's reader: it must not fly through libcurl
  bool is_text_too_long = false;
  std::chrono::steady_clock::time_point last_moved = std::chrono::steady_clock::now();

  /// Makes `easy` call all of these.
  void attach(CURL* easy);

 private:
  std::size_t take_header(std::string_view line);
  std::size_t take_body(std::span<const std::uint8_t> bytes);
  std::size_t give_body(std::span<std::uint8_t> room);
  int seek_body(std::uint64_t offset);
  void moved() { last_moved = std::chrono::steady_clock::now(); }
};

}  // namespace wdelta
