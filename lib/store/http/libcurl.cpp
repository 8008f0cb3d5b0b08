// SPDX-License-Identifier: Apache-2.0
#include "store/http/libcurl.hpp"

#include "store/http/loaded_library.hpp"

namespace wdelta {

namespace {

Libcurl load_curl() {
  // Its interface has had this number since 2006.
  const LoadedLibrary library("libcurl.so.4", "repositories on a network need libcurl 7.85 or newer");
  Libcurl curl{};
  library.find(curl.global_init, "curl_global_init");
  library.find(curl.global_cleanup, "curl_global_cleanup");
  library.find(curl.getdate, "curl_getdate");
  library.find(curl.free, "curl_free");
  library.find(curl.easy_init, "curl_easy_init");
  library.find(curl.easy_cleanup, "curl_easy_cleanup");
  library.find(curl.easy_reset, "curl_easy_reset");
  library.find(curl.easy_setopt, "curl_easy_setopt");
  library.find(curl.easy_getinfo, "curl_easy_getinfo");
  library.find(curl.easy_strerror, "curl_easy_strerror");
  library.find(curl.multi_init, "curl_multi_init");
  library.find(curl.multi_cleanup, "curl_multi_cleanup");
  library.find(curl.multi_add_handle, "curl_multi_add_handle");
  library.find(curl.multi_remove_handle, "curl_multi_remove_handle");
  library.find(curl.multi_perform, "curl_multi_perform");
  library.find(curl.multi_poll, "curl_multi_poll");
  library.find(curl.multi_wakeup, "curl_multi_wakeup");
  library.find(curl.multi_info_read, "curl_multi_info_read");
  library.find(curl.slist_append, "curl_slist_append");
  library.find(curl.slist_free_all, "curl_slist_free_all");
  library.find(curl.url, "curl_url");
  library.find(curl.url_cleanup, "curl_url_cleanup");
  library.find(curl.url_get, "curl_url_get");
  library.find(curl.url_set, "curl_url_set");
  library.find(curl.url_strerror, "curl_url_strerror");
  return curl;
}

}  // namespace

const Libcurl& libcurl() {
  static const Libcurl curl = load_curl();
  return curl;
}

}  // namespace wdelta
