// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace wdelta {

/// Now, in UTC, as 2026-11-21T06:15:00Z.
std::string now_text();

/// Seconds since 1970 of such a text; nothing when it is none, or of a day that there is not. A leap second is the one
/// behind it.
std::optional<std::int64_t> seconds_of(const std::string& moment);

/// Milliseconds since 1970, where parts of a second may follow the seconds as in 2026-11-21T06:15:00.123Z.
std::optional<std::int64_t> milliseconds_of(const std::string& moment);

/// `digits` random hexadecimal digits from the system's generator.
std::string random_hex(unsigned digits);

}  // namespace wdelta
