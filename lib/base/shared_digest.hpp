// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/reader.hpp"

#include <cstdint>
#include <mutex>
#include <optional>

namespace wdelta {

/// The digest of a reader that is wanted often: it is read once, for as long as nothing shows that its bytes may be
/// others by now.
class SharedDigest {
 public:
  /// digest_of() the bytes as they are at this moment; always of the same reader. Known without reading only where its
  /// ByteReader::changed_ns() proves that they are those that were hashed before. Who asks meanwhile waits.
  Digest of(const ByteReader& reader, const Execution& execution);

 private:
  struct Known {
    std::int64_t changed_ns = 0;
    Digest digest;
  };
  std::mutex mutex_;
  std::optional<Known> known_;
};

}  // namespace wdelta
