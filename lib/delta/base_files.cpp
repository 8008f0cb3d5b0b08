// SPDX-License-Identifier: Apache-2.0
#include "delta/base_files.hpp"

#include "base/reader_digest.hpp"
#include "checkpoint/counterpart.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

namespace wdelta {

namespace {

std::string_view folder_of(std::string_view path) { return path.substr(0, path.find_last_of('/') + 1); }

}  // namespace

Digest BaseFile::digest(const Execution& execution) const {
  return shared_digest ? shared_digest->of(bytes(), execution) : digest_of(bytes(), execution);
}

BaseFiles::BaseFiles(const Checkpoint& base) : single_file_(base.is_single_file()) {
  for (const CheckpointFile& file : base.files()) {
    if (!is_weights(file.path)) continue;
    opened_.push_back(file.open());
    files_.push_back({file.path, RebuiltFile::from_file(opened_.back()), nullptr, std::make_shared<SharedDigest>()});
  }
}

std::vector<BaseFile>::const_iterator BaseFiles::at_place(const std::string& path) const {
  return single_file_ ? files_.begin() : std::ranges::find(files_, path, &BaseFile::path);
}

std::shared_ptr<const SafetensorsHeader> BaseFiles::header_of(const std::string& path, const ByteReader& next) const {
  const auto file = at_place(path);
  return SafetensorsHeader::read_like(next, file == files_.end() ? nullptr : file->file->shared_header());
}

std::vector<BaseFile> BaseFiles::for_place(const std::string& path, const SafetensorsHeader& next) const {
  std::vector<BaseFile> ordered = files_;
  const auto shared_tensors = [&](const BaseFile& file) {
    return std::ranges::count_if(next.tensors(), [&](const Tensor& tensor) {
      const Tensor* found = file.file->header().find(tensor.name);
      return found != nullptr && found->has_elements_like(tensor);
    });
  };
  const std::string_view folder = folder_of(path);
  const auto is_beside = [&](const BaseFile& file) { return folder_of(file.path) == folder; };
  auto first = ordered.begin() + (at_place(path) - files_.begin());
  if (first == ordered.end() && !ordered.empty()) {
    const auto rank = [&](const BaseFile& file) {
      const auto shared = shared_tensors(file);
      return std::tuple(shared > 0 && is_beside(file), shared, likeness_of_places(file.path, path));
    };
    first = std::ranges::max_element(ordered, {}, rank);
  }
  if (first == ordered.end()) return {};
  std::rotate(ordered.begin(), first, first + 1);
  std::stable_partition(ordered.begin() + 1, ordered.end(), is_beside);
  return ordered;
}

void BaseFiles::check_unchanged() const {
  for (const auto& file : opened_) file->check_unchanged();
}

}  // namespace wdelta
