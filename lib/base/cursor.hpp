// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// Reads a byte string from outside front to back. Every read goes through take(), the one place that checks bounds.
/// Throws Error(corrupt) with an empty object; the caller adds what the bytes are.
class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  std::span<const std::uint8_t> take(std::uint64_t size_bytes);
  std::uint8_t u8() { return take(1)[0]; }
  /// A varint as wdelta-delta(5) defines it: at most ten bytes, less than 2^64, no longer than needed.
  std::uint64_t varint();
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const std::uint8_t> rest_;
};

void append_varint(std::vector<std::uint8_t>& bytes, std::uint64_t value);

}  // namespace wdelta
