// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/http/http.hpp"

#include <string>
#include <string_view>

namespace wdelta {

/// A URL as messages may show it: without query, where signatures and tokens are, and without user and password.
std::string shown_url(std::string_view url);

/// Where a URL leads: scheme, host and port. Throws usage when it is no http or https URL.
std::string origin_of(const std::string& url);
/// HOST or HOST:PORT, as the header Host has it.
std::string host_of(const std::string& url);

/// The request that an answer with Location asks for: the same without its secret headers, which the caller may add
/// again where origin_of() stays the same. Throws network when there is no Location, when it leads anywhere but to http
/// and https, or from https to http.
HttpRequest redirected(const HttpRequest& request, const HttpResponse& response);

}  // namespace wdelta
