// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace wdelta::testing {

/// The seed of this run: WDELTA_SEED if set, else drawn. Tests that use it print it with INFO or CAPTURE on failure.
inline std::uint64_t seed() {
  static const std::uint64_t value = [] {
    const char* text = std::getenv("WDELTA_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  }();
  return value;
}

inline std::vector<std::uint8_t> random_bytes(std::mt19937_64& random, std::size_t size_bytes) {
  std::vector<std::uint8_t> bytes(size_bytes);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

}  // namespace wdelta::testing
