// SPDX-License-Identifier: Apache-2.0
#include "base/moment.hpp"

#include <chrono>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <random>

namespace wdelta {

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string random_hex(unsigned digits) {
  std::random_device device;
  std::string text;
  while (text.size() < digits) text += fmt::format("{:08x}", device());
  text.resize(digits);
  return text;
}

}  // namespace wdelta
