// SPDX-License-Identifier: Apache-2.0
// Raw bits as kernels write them; for kernel files alone, each of which gets a copy of its own.
#pragma once

#include <cstdint>

namespace wdelta {
namespace {

/// Bits behind one another, lowest first.
struct BitString {
  std::uint8_t* bytes;
  std::uint64_t at = 0;  // whole bytes written
  std::uint64_t pending = 0;
  std::uint32_t pending_bits = 0;

  /// At most 56 bits; writes 8 bytes.
  void append(std::uint64_t bits, std::uint32_t count) {
    pending |= bits << pending_bits;
    pending_bits += count;
    __builtin_memcpy(bytes + at, &pending, sizeof(pending));
    at += pending_bits / 8;
    pending >>= pending_bits & 56;
    pending_bits &= 7;
  }
  std::uint64_t size_bits() const { return 8 * at + pending_bits; }
};

}  // namespace
}  // namespace wdelta
