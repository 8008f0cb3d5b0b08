// SPDX-License-Identifier: Apache-2.0
#include "base/moment.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <random>
#include <string_view>

namespace wdelta {

std::string now_text() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::optional<std::int64_t> seconds_of(const std::string& moment) {
  // Not strptime(3), which takes blanks and signs, fewer digits, and 31 days of any month.
  constexpr std::string_view k_form = "dddd-dd-ddTdd:dd:ddZ";
  const auto fits = [](char each, char form) { return form == 'd' ? each >= '0' && each <= '9' : each == form; };
  if (!std::ranges::equal(moment, k_form, fits)) return std::nullopt;
  const auto number = [&](std::size_t at, std::size_t digits) {
    int value = 0;
    for (const char digit : std::string_view(moment).substr(at, digits)) value = 10 * value + (digit - '0');
    return value;
  };
  using namespace std::chrono;
  const year_month_day day{year(number(0, 4)), month(static_cast<unsigned>(number(5, 2))),
                           std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  const int hour = number(11, 2), minute = number(14, 2), second = number(17, 2);
  if (!day.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::seconds(sys_days(day).time_since_epoch() + hours(hour) + minutes(minute) +
                              std::chrono::seconds(second))
      .count();
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
