// SPDX-License-Identifier: Apache-2.0
#include "delta/base_files.hpp"

#include <algorithm>

namespace wdelta {

BaseFiles::BaseFiles(const Checkpoint& base) : single_file_(base.is_single_file()) {
  for (const CheckpointFile& file : base.files()) {
    if (!is_weights(file.path)) continue;
    opened_.push_back(file.open());
    files_.push_back({file.path, RebuiltFile::from_file(opened_.back())});
  }
}

std::vector<BaseFile> BaseFiles::for_place(const std::string& path, const SafetensorsHeader& next) const {
  std::vector<BaseFile> ordered = files_;
  auto first = single_file_ ? ordered.begin() : std::ranges::find(ordered, path, &BaseFile::path);
  if (first == ordered.end()) {
    first = std::ranges::find_if(ordered, [&](const BaseFile& file) {
      return std::ranges::any_of(
          next.tensors(), [&](const Tensor& tensor) { return file.file->header().find(tensor.name) != nullptr; });
    });
  }
  if (first == ordered.end()) return {};
  std::rotate(ordered.begin(), first, first + 1);
  return ordered;
}

void BaseFiles::check_unchanged() const {
  for (const auto& file : opened_) file->check_unchanged();
}

}  // namespace wdelta
