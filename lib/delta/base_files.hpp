// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "delta/diff.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace wdelta {

/// The weights of a base checkpoint, their headers read, ready to be compared with.
class BaseFiles {
 public:
  /// Opens every safetensors file of `base`. `base` need not outlive it.
  explicit BaseFiles(const Checkpoint& base);

  /// What to compare the file at place `path` with: the file at that place first, or the only one when the base is a
  /// single file, or else the first that has a tensor of next; then all others.
  std::vector<BaseFile> for_place(const std::string& path, const SafetensorsHeader& next) const;
  /// Throws local when a file changed since it was opened.
  void check_unchanged() const;

 private:
  bool single_file_;
  std::vector<BaseFile> files_;
  std::vector<std::shared_ptr<const ByteReader>> opened_;
};

}  // namespace wdelta
