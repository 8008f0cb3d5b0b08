// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace wdelta {

using IniSection = std::map<std::string, std::string>;
using IniFile = std::map<std::string, IniSection>;

/// Files as AWS's programs keep: [section], then lines "name = value" or "name: value", with names in any case, here in
/// lower case. A name without a value whose next lines are indented holds settings of its own, here under "name.inner".
/// A section's name may have parts in quotes. Lines that make no sense are passed over: they are other programs' files.
IniFile parse_ini(std::string_view text);

}  // namespace wdelta
