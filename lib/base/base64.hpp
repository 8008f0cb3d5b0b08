// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace wdelta {

/// RFC 4648, with padding.
std::string to_base64(std::string_view bytes);
/// Nothing when it is not the one encoding of some bytes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace wdelta
