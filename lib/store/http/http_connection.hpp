// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/http/http_client.hpp"

#include <curl/curl.h>

namespace wdelta {

/// One libcurl handle with the connections that it keeps open. One thread at a time.
class HttpConnection {
 public:
  HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  ~HttpConnection();

  /// While nothing arrives it tells the progress of `execution`, where there is one, that nothing does.
  HttpOutcome send(const HttpRequest& request, const NetworkOptions& options, RateLimit& rate_limit,
                   const Execution& execution);

 private:
  CURLcode run_to_end(const NetworkOptions& options, const Execution& execution, struct HttpTransfer& transfer);

  CURLM* multi_;
  CURL* easy_;
};

}  // namespace wdelta
