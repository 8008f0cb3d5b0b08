// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace wdelta {

/// A BLAKE3 digest: 32 bytes, written as 64 lower-case hex digits.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const Digest&) const = default;
  std::string hex() const;
  /// Exactly 64 lower-case hex digits, or nothing.
  static std::optional<Digest> parse(std::string_view hex);
};

}  // namespace wdelta

template <>
struct std::hash<wdelta::Digest> {
  std::size_t operator()(const wdelta::Digest& digest) const noexcept;
};
