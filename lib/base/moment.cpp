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

std::optional<std::int64_t> milliseconds_of(const std::string& moment) {
  const std::size_t dot = moment.find('.');
  if (dot == std::string::npos) {
    const auto seconds = seconds_of(moment);
    return seconds ? std::optional(*seconds * 1000) : std::nullopt;
  }
  const auto seconds = seconds_of(moment.substr(0, dot) + "Z");
  std::string digits = moment.substr(dot + 1);
  if (!seconds || !digits.ends_with('Z') || digits.size() < 2) return std::nullopt;
  digits.pop_back();
  if (digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  digits.resize(3, '0');
  return *seconds * 1000 + (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
}

std::string random_hex(unsigned digits) {
  std::random_device device;
  std::string text;
  while (text.size() < digits) text += fmt::format("{:08x}", device());
  text.resize(digits);
  return text;
}

}  // namespace wdelta
