// SPDX-License-Identifier: Apache-2.0
#include "user/user_access.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "user/s3_access.hpp"

#include <initializer_list>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

std::string first_set(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

// As the Hub's own client understands it.
bool is_on(const std::string& given) {
  const std::string value = ascii_lowered(given);
  return value == "1" || value == "true" || value == "yes" || value == "on";
}

fs::path below_home(const Environment& environment, const char* variable, const char* folder) {
  if (const std::string xdg = environment(variable); !xdg.empty()) return xdg;
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / folder;
}

// What is on its way to or from a store. Not below /tmp, which is small on many machines.
fs::path staging_directory(const Environment& environment) {
  if (const std::string own = environment("WDELTA_CACHE_DIR"); !own.empty()) return own;
  const fs::path cache = below_home(environment, "XDG_CACHE_HOME", ".cache");
  return cache.empty() ? cache : cache / "wdelta";
}

// Of the Hub's own client; empty when there is no such place.
fs::path hub_home(const Environment& environment) {
  if (const std::string own = environment("HF_HOME"); !own.empty()) return own;
  const fs::path cache = below_home(environment, "XDG_CACHE_HOME", ".cache");
  return cache.empty() ? cache : cache / "huggingface";
}

// Where the Hub's own client keeps models.
fs::path hub_cache_directory(const Environment& environment) {
  if (const std::string own = first_set(environment, {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}); !own.empty())
    return own;
  return hub_home(environment).empty() ? fs::path() : hub_home(environment) / "hub";
}

// As the Hub's own client looks for it.
void find_hub_token(const Environment& environment, HubAccess& hub) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const std::string token(trimmed(environment(name))); !token.empty()) {
      hub.token = token;
      hub.token_source = name;
      return;
    }
  }
  if (is_on(environment("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return;
  fs::path path = environment("HF_TOKEN_PATH");
  if (path.empty()) {
    if (hub_home(environment).empty()) return;
    path = hub_home(environment) / "token";
  }
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  constexpr std::uint64_t k_longest_token_file = 64 << 10;
  hub.token = trimmed(read_small_file(path, k_longest_token_file));
  hub.token_source = path.string();
}

}  // namespace

fs::path state_directory(const Environment& environment) {
  if (const std::string own = environment("WDELTA_STATE_DIR"); !own.empty()) return own;
  if (const std::string xdg = environment("XDG_STATE_HOME"); !xdg.empty()) return fs::path(xdg) / "wdelta";
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".local/state/wdelta";
}

Access access_to(const std::string& location, const NetworkOptions& network, const Environment& environment) {
  Access access;
  access.network = network;
  if (is_on(environment("HF_HUB_OFFLINE"))) access.network.offline = true;
  const bool is_s3 = location.starts_with("s3://");
  if (is_s3) access.network.certificates = environment("AWS_CA_BUNDLE");
  if (access.network.certificates.empty())
    access.network.certificates = first_set(environment, {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  access.staging_directory = staging_directory(environment);
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    access.hub.endpoint = endpoint;
  }
  access.hub.cache_directory = hub_cache_directory(environment);
  try {
    find_hub_token(environment, access.hub);
  } catch (const Error&) {
    if (location.starts_with("hf://")) throw;
  }
  if (is_s3) access.s3 = s3_access(environment);
  return access;
}

}  // namespace wdelta
