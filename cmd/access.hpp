// SPDX-License-Identifier: Apache-2.0
// What options and environment say of stores on a network.
#pragma once

#include "declare.hpp"
#include "store/access.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace wdelta::cmd {

/// The value of a variable; empty when it is not set.
std::string environment(const char* name);

struct NetworkArguments {
  unsigned transfers = 8;
  std::string limit_rate;
  bool offline = false;
  std::uint32_t connect_timeout_s = 20;
  std::uint32_t stall_timeout_s = 60;
};

void add_network_options(CLI::App& app, NetworkArguments& arguments);

/// wdelta::access_to() with the variables of this process.
Access access_to(const std::string& location, const NetworkArguments& arguments);

/// "500k", "20M", "1.5G" or a number: bytes. Throws usage.
std::uint64_t parse_rate(const std::string& text);

}  // namespace wdelta::cmd
