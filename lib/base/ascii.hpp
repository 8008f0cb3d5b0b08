// SPDX-License-Identifier: Apache-2.0
// Letters, digits and blanks as ASCII has them: what a locale makes of them is no part of any format.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace wdelta {

constexpr char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
/// The text with its capital letters made small.
std::string ascii_lowered(std::string_view text);

/// Whether `text` is so many hexadecimal digits, in lower case.
bool is_hex(std::string_view text, std::size_t digits);

/// The text without blanks, tabs and ends of lines around it.
std::string_view trimmed(std::string_view text);

}  // namespace wdelta
