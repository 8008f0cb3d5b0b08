// SPDX-License-Identifier: Apache-2.0
// Percent-encoding (RFC 3986, 2.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace wdelta {

enum class Slashes { kept, encoded };
/// `text` with every byte but letters, digits and - _ . ~ as %XX.
std::string percent_encoded(std::string_view text, Slashes slashes);
/// The way back; nothing when a '%' is not followed by two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace wdelta
