// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "delta/ordered_base.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// The weights of a base checkpoint, their headers read, ready to be compared with.
class BaseFiles {
 public:
  /// Opens every safetensors file of `base`. `base` need not outlive it.
  explicit BaseFiles(const Checkpoint& base);

  /// The header of the file that is to have the place `path`.
  std::shared_ptr<const SafetensorsHeader> header_of(const std::string& path, const ByteReader& next) const;
  /// What to compare the file at place `path` with: first the file at that place, or the only one when the base is a
  /// single file, or else the one that shares most tensors with next, rather in the same folder (of several, the one
  /// whose name is most like `path`); then all others, those of that folder first: tensors may have been renamed as
  /// well, and other folders may have others of the same names. Nothing when the base has no weights.
  OrderedBase for_place(const std::string& path, const SafetensorsHeader& next) const;
  /// Throws local when a file changed since it was opened.
  void check_unchanged() const;

 private:
  std::optional<std::size_t> at_place(const std::string& path) const;

  bool single_file_;
  std::shared_ptr<const BaseIndex> index_;
  std::vector<std::shared_ptr<const ByteReader>> opened_;
};

}  // namespace wdelta
