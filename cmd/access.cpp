// SPDX-License-Identifier: Apache-2.0
#include "access.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "s3_access.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace wdelta::cmd {

namespace {

namespace fs = std::filesystem;

std::string first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = environment(name); !value.empty()) return value;
  }
  return "";
}

bool is_on(const std::string& value) {
  return value == "1" || value == "true" || value == "TRUE" || value == "yes" || value == "YES" || value == "ON" ||
         value == "on";
}

fs::path below_home(const char* variable, const char* folder) {
  if (const std::string xdg = environment(variable); !xdg.empty()) return xdg;
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / folder;
}

// What is on its way to or from a store. Not below /tmp, which is small on many machines.
fs::path staging_directory() {
  if (const std::string own = environment("WDELTA_CACHE_DIR"); !own.empty()) return own;
  const fs::path cache = below_home("XDG_CACHE_HOME", ".cache");
  return cache.empty() ? cache : cache / "wdelta";
}

NetworkOptions network_of(const NetworkArguments& arguments) {
  NetworkOptions network;
  network.transfers = arguments.transfers;
  if (!arguments.limit_rate.empty()) network.bytes_per_second = parse_rate(arguments.limit_rate);
  network.offline = arguments.offline || is_on(environment("HF_HUB_OFFLINE"));
  network.ca_file = first_set({"AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"});
  network.connect_timeout = std::chrono::seconds(arguments.connect_timeout_s);
  network.stall_timeout = std::chrono::seconds(arguments.stall_timeout_s);
  network.user_agent = "wdelta/" WDELTA_VERSION;
  return network;
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// Of the Hub's own client; empty when there is no such place.
fs::path hub_home() {
  if (const std::string own = environment("HF_HOME"); !own.empty()) return own;
  const fs::path cache = below_home("XDG_CACHE_HOME", ".cache");
  return cache.empty() ? cache : cache / "huggingface";
}

// Where the Hub's own client keeps models.
fs::path hub_cache_directory() {
  if (const std::string own = first_set({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}); !own.empty()) return own;
  return hub_home().empty() ? fs::path() : hub_home() / "hub";
}

// As the Hub's own client looks for it.
void find_hub_token(HubAccess& hub) {
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    if (const std::string token = trimmed(environment(name)); !token.empty()) {
      hub.token = token;
      hub.token_source = name;
      return;
    }
  }
  if (is_on(environment("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return;
  fs::path path = environment("HF_TOKEN_PATH");
  if (path.empty()) {
    if (hub_home().empty()) return;
    path = hub_home() / "token";
  }
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return;
  constexpr std::uint64_t k_longest_token_file = 64 << 10;
  hub.token = trimmed(read_small_file(path, k_longest_token_file));
  hub.token_source = path.string();
}

}  // namespace

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::uint64_t parse_rate(const std::string& text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const std::string_view rest(unit, static_cast<std::size_t>(end - unit));
  const double factor = rest.empty()                 ? 1
                        : rest == "k" || rest == "K" ? 1e3
                        : rest == "m" || rest == "M" ? 1e6
                        : rest == "g" || rest == "G" ? 1e9
                                                     : 0;
  if (error != std::errc() || factor == 0 || !(value * factor >= 1) || value * factor > 1e15)
    throw Error(Fault::usage, text, "is no rate", "write bytes a second: 500k, 20M or 1.5G");
  return static_cast<std::uint64_t>(value * factor);
}

void add_network_options(CLI::App& app, NetworkArguments& arguments) {
  app.add_option("--transfers", arguments.transfers, "Transfer so many objects or parts at a time (default: 8)")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  app.add_option("--limit-rate", arguments.limit_rate, "Transfer at most so many bytes a second, as in 20M")
      ->type_name("RATE");
  app.add_flag("--offline", arguments.offline, "Send nothing over a network");
  app.add_option("--connect-timeout", arguments.connect_timeout_s,
                 "Give up a server that does not answer for S seconds (default: 20)")
      ->type_name("S")
      ->check(CLI::Range(1, 3600));
  app.add_option("--stall-timeout", arguments.stall_timeout_s,
                 "Break off a transfer that moves nothing for S seconds, and try again (default: 60)")
      ->type_name("S")
      ->check(CLI::Range(1, 3600));
}

Access access_to(const std::string& location, const NetworkArguments& arguments) {
  Access access;
  access.network = network_of(arguments);
  access.staging_directory = staging_directory();
  if (std::string endpoint = environment("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    access.hub.endpoint = endpoint;
  }
  access.hub.cache_directory = hub_cache_directory();
  try {
    find_hub_token(access.hub);
  } catch (const Error&) {
    if (location.starts_with("hf://")) throw;
  }
  if (location.starts_with("s3://")) access.s3 = s3_access();
  return access;
}

}  // namespace wdelta::cmd
