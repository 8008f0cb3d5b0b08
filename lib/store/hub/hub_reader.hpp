// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/http/remote_reader.hpp"
#include "store/hub/hub_connection.hpp"

#include <memory>
#include <optional>
#include <string>

namespace wdelta {

/// Asks for a file on the Hub; nothing when there is none. What is small comes with the answer.
std::optional<FoundObject> find_hub_file(std::shared_ptr<const HubFiles> files, const std::string& path);

}  // namespace wdelta
