// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/model_hub.hpp"

#include <memory>

namespace wdelta {

/// SHA-256 for a file that the Hub keeps as a large one, the id of a git blob for one that lies in git: told by the
/// length of `file`'s etag.
std::unique_ptr<EtagHash> make_etag_hash(const ModelFile& file);

}  // namespace wdelta
