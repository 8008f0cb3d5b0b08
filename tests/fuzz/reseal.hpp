// SPDX-License-Identifier: Apache-2.0
// Digests put right, so that a fuzzer gets past them to what they guard.
#pragma once

#include "base/blake3.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta::fuzz {

/// Gives the last "digest" of 64 characters within `bytes` the digest that it should be; nothing happens without one.
inline void reseal(std::span<std::uint8_t> bytes) {
  constexpr std::string_view k_before = "\"digest\":\"";
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t found = text.rfind(k_before);
  if (found == std::string_view::npos || text.size() - found < k_before.size() + 65) return;
  const auto digits = bytes.subspan(found + k_before.size(), 64);
  std::ranges::fill(digits, std::uint8_t{'0'});
  std::ranges::copy(blake3(bytes).hex(), digits.begin());
}

/// The input as a sealed document.
inline std::string resealed_text(const std::uint8_t* bytes, std::size_t size_bytes) {
  std::vector<std::uint8_t> copy(bytes, bytes + size_bytes);
  reseal(copy);
  return {copy.begin(), copy.end()};
}

}  // namespace wdelta::fuzz
