// SPDX-License-Identifier: Apache-2.0
#include "access.hpp"

#include "base/error.hpp"
#include "user/user_access.hpp"

#include <charconv>
#include <cstdlib>

namespace wdelta::cmd {

namespace {

NetworkOptions network_of(const NetworkArguments& arguments) {
  NetworkOptions network;
  network.transfers = arguments.transfers;
  if (!arguments.limit_rate.empty()) network.bytes_per_second = parse_rate(arguments.limit_rate);
  network.offline = arguments.offline;
  network.connect_timeout = std::chrono::seconds(arguments.connect_timeout_s);
  network.stall_timeout = std::chrono::seconds(arguments.stall_timeout_s);
  network.user_agent = "wdelta/" WDELTA_VERSION;
  return network;
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
  declare(app, "--transfers", arguments.transfers, "Transfer so many objects or parts at a time (default: 8)")
      .value_name("N")
      .in_range(1, 256);
  declare(app, "--limit-rate", arguments.limit_rate, "Transfer at most so many bytes a second, as in 20M")
      .value_name("RATE")
      .check(not_empty);
  declare_flag(app, "--offline", arguments.offline, "Send nothing over a network");
  declare(app, "--connect-timeout", arguments.connect_timeout_s,
          "Give up a server that does not answer for S seconds (default: 20)")
      .value_name("S")
      .in_range(1, 3600);
  declare(app, "--stall-timeout", arguments.stall_timeout_s,
          "Break off a transfer that moves nothing for S seconds, and try again (default: 60)")
      .value_name("S")
      .in_range(1, 3600);
}

Access access_to(const std::string& location, const NetworkArguments& arguments) {
  return wdelta::access_to(location, network_of(arguments), environment);
}

}  // namespace wdelta::cmd
