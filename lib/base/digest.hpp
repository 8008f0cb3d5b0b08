// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace wdelta {

/// A BLAKE3 digest: 32 bytes, written as 64 lower-case hex digits. There is no std::hash of it: the digests in a
/// hostile recipe book could all be chosen to fall into one bucket.
struct Digest {
  std::array<std::uint8_t, 32> bytes{};

  auto operator<=>(const Digest&) const = default;
  std::string hex() const;
  /// Exactly 64 lower-case hex digits, or nothing.
  static std::optional<Digest> parse(std::string_view hex);
};

}  // namespace wdelta
