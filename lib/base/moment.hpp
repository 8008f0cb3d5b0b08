// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace wdelta {

/// Now, in UTC, as 2026-11-21T06:15:00Z.
std::string now_text();

/// `digits` random hexadecimal digits from the system's generator.
std::string random_hex(unsigned digits);

}  // namespace wdelta
