// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace wdelta {

/// A gear hash forgets a byte after so many more.
constexpr std::size_t k_gear_window_bytes = 64;

/// Where a file may be cut: the places at which the gear hash of the 64 bytes that end there has 16 leading zeros.
///
/// The protocol runs its hash from the start of each chunk, but no chunk ends before its 8192nd byte, by when nothing
/// is left of the start. So whether a byte is such a place does not depend on the cuts before it: stretches can be
/// scanned at once, by any number of threads and, on one, several side by side, which hides the time that one byte
/// waits for the hash of the byte before it. A bit for each byte, because hostile bytes can match everywhere.
class GearMarks {
 public:
  /// For places 0 … `size_bytes`-1, no marks yet.
  void reset(std::size_t size_bytes);
  /// Marks the places `begin` … `end`-1 of `bytes` that match. Reads from `begin` - 63, which must be readable (it may
  /// lie before `bytes`). Safe from several threads for places of different words of 64.
  void scan(const std::uint8_t* bytes, std::size_t begin, std::size_t end);
  /// The first marked place from `begin` on, or `end` when there is none before it.
  std::size_t next(std::size_t begin, std::size_t end) const;

 private:
  std::vector<std::uint64_t> words_;
};

}  // namespace wdelta
