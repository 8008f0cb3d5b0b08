// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"
#include "store/model_hub.hpp"

#include <string>

namespace wdelta {

/// What bytes are by our name and by the Hub's.
struct ModelDigest {
  Digest digest;
  std::string etag;
};

/// Both of bytes that should be those of `file`, each read once. The Hub's hashes know no tree, so one thread makes
/// them while another makes ours. Reports the bytes to the progress.
ModelDigest digest_of_model_file(const ByteReader& bytes, const ModelHub& models, const ModelFile& file,
                                 const Execution& execution);

}  // namespace wdelta
