// SPDX-License-Identifier: Apache-2.0
// What a delta says of itself: the __metadata__ of wdelta-delta(5).
#pragma once

#include "checkpoint/dtype.hpp"
#include "delta/file_identity.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

/// Where the base of a tensor is found.
struct Source {
  std::size_t file = 0;  ///< index in DeltaDescription::base
  std::string tensor;
};

struct DeltaDescription {
  std::vector<FileIdentity> base;
  FileIdentity result;
  /// Tensors whose source is not the one of the same name in base[0]; nothing means that the tensor starts afresh.
  std::map<std::string, std::optional<Source>> sources;
  /// Of a result that is no safetensors file: what its bytes, and those of its base, are taken for. Else null.
  const Dtype* opaque = nullptr;
  std::uint64_t element_count = 0;
  std::uint64_t change_count = 0;

  /// The source of tensor `name`.
  std::optional<Source> source_of(const std::string& name) const;
};

/// The strings of __metadata__ that describe, without those about the container itself.
using Metadata = std::vector<std::pair<std::string, std::string>>;
Metadata to_metadata(const DeltaDescription& description);
/// Throws corrupt, naming `object`, when a key is missing or not of its form.
DeltaDescription description_from(const Metadata& metadata, const std::string& object);

/// The value of a key, or null.
const std::string* find_metadata(const Metadata& metadata, std::string_view key);

}  // namespace wdelta
