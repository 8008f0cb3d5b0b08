// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace wdelta {

/// The text with whatever a terminal would not show as text escaped: one line, of UTF-8. What a file or a repository
/// says goes through here on its way to a screen or to a caller: it may be hostile.
std::string printable(std::string_view text);

}  // namespace wdelta
