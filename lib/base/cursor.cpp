// SPDX-License-Identifier: Apache-2.0
#include "base/cursor.hpp"

#include "base/error.hpp"

#include <string>

namespace wdelta {

std::span<const std::uint8_t> Cursor::take(std::uint64_t size_bytes) {
  if (size_bytes > rest_.size()) {
    throw Error(Fault::corrupt, "",
                "cut: " + std::to_string(size_bytes) + " bytes expected, " + std::to_string(rest_.size()) + " left");
  }
  const auto taken = rest_.first(size_bytes);
  rest_ = rest_.subspan(size_bytes);
  return taken;
}

std::uint64_t Cursor::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t byte = u8();
    if (shift == 63 && byte > 1) break;
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      if (byte == 0 && shift > 0) break;
      return value;
    }
  }
  throw Error(Fault::corrupt, "", "a varint is too long");
}

void append_varint(std::vector<std::uint8_t>& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::uint8_t>(value | 0x80));
  bytes.push_back(static_cast<std::uint8_t>(value));
}

}  // namespace wdelta
