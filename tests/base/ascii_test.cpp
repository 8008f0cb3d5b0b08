// SPDX-License-Identifier: Apache-2.0
#include "base/ascii.hpp"

#include <doctest/doctest.h>

namespace wdelta {

TEST_CASE("of all bytes the capital letters of ASCII alone become others") {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    CHECK(ascii_lower(c) == (byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : c));
  }
  CHECK(ascii_lowered("ÄPFEL, Zoo\n") == "Äpfel, zoo\n");
  CHECK(ascii_lowered("").empty());
}

TEST_CASE("hexadecimal digits are as many as are asked for, and small") {
  CHECK(is_hex("0123456789abcdef", 16));
  CHECK(is_hex("", 0));
  CHECK_FALSE(is_hex("0123456789abcdef", 15));
  for (const char* other : {"A", "g", "/", ":", "`", " ", "-"}) CHECK_FALSE(is_hex(other, 1));
}

TEST_CASE("blanks go from around a text, and stay within") {
  CHECK(trimmed(" \t\r\n a\t b \n\n") == "a\t b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \r\n").empty());
  CHECK(trimmed("").empty());
}

}  // namespace wdelta
