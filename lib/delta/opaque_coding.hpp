// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "checkpoint/dtype.hpp"
#include "engine/engine.hpp"

#include <cstdint>
#include <memory>
#include <optional>

namespace wdelta {

/// How to keep a file whose format is not known.
struct OpaqueCoding {
  const Dtype* dtype = nullptr;  ///< what its bytes are taken for
  bool with_base = false;        ///< as the difference to its previous version, else compressed by itself
};

/// Whether a file of `stored_bytes` is worth keeping so instead of `whole_bytes` as they are: a chain to follow, or
/// frames to open, must save something.
inline bool pays(std::uint64_t stored_bytes, std::uint64_t whole_bytes) {
  return stored_bytes < whole_bytes - whole_bytes / 32;
}

/// Tries a sample of blocks every way that there is. Nothing when no way pays. `base` may be null.
std::optional<OpaqueCoding> choose_opaque_coding(const std::shared_ptr<const ByteReader>& base, const ByteReader& next,
                                                 const Engine& engine);

}  // namespace wdelta
