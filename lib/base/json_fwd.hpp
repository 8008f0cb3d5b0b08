// SPDX-License-Identifier: Apache-2.0
// Names of json.hpp's types, for headers that only pass them on: the types themselves take two seconds to compile.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace wdelta {

/// For documents to write: members keep the order they were written in, for people to read. Finding a member takes time
/// in proportion to their number, so objects with a name for each tensor are not built of this.
using Json = nlohmann::ordered_json;
/// For documents from outside, where an object may have a hundred thousand members.
using ParsedJson = nlohmann::json;

}  // namespace wdelta
