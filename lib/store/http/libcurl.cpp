// SPDX-License-Identifier: Apache-2.0
#include "store/http/libcurl.hpp"

#include "base/error.hpp"

#include <dlfcn.h>

namespace wdelta {

namespace {

// Its interface has had this number since 2006.
constexpr const char* k_name = "libcurl.so.4";

[[noreturn]] void refuse() {
  const char* const why = ::dlerror();
  throw Error(Fault::unsupported, k_name, why != nullptr ? why : "cannot be loaded",
              "repositories on a network need libcurl 7.85 or newer");
}

Libcurl load() {
  void* const library = ::dlopen(k_name, RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) refuse();
  Libcurl curl{};
  const auto find = [library]<class Function>(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library, name));
    if (function == nullptr) refuse();
  };
  find(curl.global_init, "curl_global_init");
  find(curl.global_cleanup, "curl_global_cleanup");
  find(curl.getdate, "curl_getdate");
  find(curl.free, "curl_free");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.multi_init, "curl_multi_init");
  find(curl.multi_cleanup, "curl_multi_cleanup");
  find(curl.multi_add_handle, "curl_multi_add_handle");
  find(curl.multi_remove_handle, "curl_multi_remove_handle");
  find(curl.multi_perform, "curl_multi_perform");
  find(curl.multi_poll, "curl_multi_poll");
  find(curl.multi_wakeup, "curl_multi_wakeup");
  find(curl.multi_info_read, "curl_multi_info_read");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  find(curl.url, "curl_url");
  find(curl.url_cleanup, "curl_url_cleanup");
  find(curl.url_get, "curl_url_get");
  find(curl.url_set, "curl_url_set");
  find(curl.url_strerror, "curl_url_strerror");
  return curl;
}

}  // namespace

const Libcurl& libcurl() {
  static const Libcurl curl = load();
  return curl;
}

}  // namespace wdelta
