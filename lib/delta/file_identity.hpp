// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"

#include <cstdint>
#include <string>

namespace wdelta {

/// A file's place, and what its bytes are.
struct FileIdentity {
  std::string path;
  std::uint64_t size_bytes = 0;
  Digest digest;

  bool operator==(const FileIdentity&) const = default;
};

}  // namespace wdelta
