// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include "base/path.hpp"

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>

namespace wdelta {

namespace {

// How many bytes at the beginning of some UTF-8 are a control character. U+0080 to U+009F, of two bytes, are some too:
// terminals take U+009B for ESC [.
std::size_t control_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  return byte(0) == 0xc2 && byte(1) < 0xa0 ? 2 : 0;
}

std::string escaped(std::string_view bytes) {
  std::string result;
  for (const char byte : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  return result;
}

}  // namespace

std::string printable(std::string_view text) {
  const bool valid = is_utf8(text);
  std::string result;
  for (std::string_view rest = text; !rest.empty();) {
    const bool strange = !valid && static_cast<unsigned char>(rest[0]) >= 0x80;
    const std::size_t control = strange ? 1 : control_bytes(rest);
    result += control > 0 ? escaped(rest.substr(0, control)) : std::string(1, rest[0]);
    rest.remove_prefix(std::max<std::size_t>(control, 1));
  }
  return result;
}

}  // namespace wdelta
