// SPDX-License-Identifier: Apache-2.0
#include "store/percent.hpp"

#include <fmt/format.h>

namespace wdelta {

std::string percent_encoded(std::string_view text, Slashes slashes) {
  std::string encoded;
  for (const char c : text) {
    const bool is_plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                          c == '_' || c == '.' || c == '~' || (c == '/' && slashes == Slashes::kept);
    if (is_plain) {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (text.size() - i < 3 || digit(text[i + 1]) < 0 || digit(text[i + 2]) < 0) return std::nullopt;
    decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
    i += 2;
  }
  return decoded;
}

}  // namespace wdelta
