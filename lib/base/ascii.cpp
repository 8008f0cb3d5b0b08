// SPDX-License-Identifier: Apache-2.0
#include "base/ascii.hpp"

#include <algorithm>

namespace wdelta {

std::string ascii_lowered(std::string_view text) {
  std::string lowered(text);
  std::ranges::transform(lowered, lowered.begin(), ascii_lower);
  return lowered;
}

bool is_hex(std::string_view text, std::size_t digits) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.size() == digits && std::ranges::all_of(text, is_digit);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(k_blanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(k_blanks) - begin + 1);
}

}  // namespace wdelta
