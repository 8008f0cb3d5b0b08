// SPDX-License-Identifier: Apache-2.0
#include "base/moment.hpp"

#include <chrono>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <random>

namespace wdelta {

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::optional<std::int64_t> seconds_of(const std::string& moment) {
  std::tm parts{};
  const char* end = ::strptime(moment.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

std::string random_hex(unsigned digits) {
  std::random_device device;
  std::string text;
  while (text.size() < digits) text += fmt::format("{:08x}", device());
  text.resize(digits);
  return text;
}

}  // namespace wdelta
