// SPDX-License-Identifier: Apache-2.0
#include "delta/base_files.hpp"

#include "checkpoint/counterpart.hpp"

#include <algorithm>
#include <utility>

namespace wdelta {

BaseFiles::BaseFiles(const Checkpoint& base) : single_file_(base.is_single_file()) {
  std::vector<BaseFile> files;
  for (const CheckpointFile& file : base.files()) {
    if (!is_weights(file.path)) continue;
    opened_.push_back(file.open());
    files.push_back({file.path, RebuiltFile::from_file(opened_.back()), nullptr, std::make_shared<SharedDigest>()});
  }
  index_ = std::make_shared<BaseIndex>(std::move(files));
}

std::optional<std::size_t> BaseFiles::at_place(const std::string& path) const {
  const std::vector<BaseFile>& files = index_->files();  // ordered by path
  const auto found = single_file_ ? files.begin() : std::ranges::lower_bound(files, path, {}, &BaseFile::path);
  if (found == files.end() || (!single_file_ && found->path != path)) return std::nullopt;
  return static_cast<std::size_t>(found - files.begin());
}

std::shared_ptr<const SafetensorsHeader> BaseFiles::header_of(const std::string& path, const ByteReader& next) const {
  const auto file = at_place(path);
  return SafetensorsHeader::read_like(next, file ? index_->files()[*file].file->shared_header() : nullptr);
}

OrderedBase BaseFiles::for_place(const std::string& path, const SafetensorsHeader& next) const {
  const std::vector<BaseFile>& files = index_->files();
  if (files.empty()) return {};
  const auto folder = index_->find_folder_of(path);
  if (const auto file = at_place(path)) return {index_, *file, folder};
  std::vector<std::size_t> shared_tensors(files.size());
  for (const Tensor& tensor : next.tensors()) {
    for (const BaseTensor& found : index_->named(tensor.name))
      shared_tensors[found.file] += found.tensor->has_elements_like(tensor) ? 1 : 0;
  }
  const auto rank = [&](std::size_t file) {
    const std::size_t shared = shared_tensors[file];
    return std::pair(shared > 0 && folder && index_->folder_of(file) == *folder, shared);
  };
  std::size_t first = 0;
  PlaceLikeness likeness;  // of the first, once it is needed
  bool is_known = false;
  for (std::size_t file = 1; file < files.size(); ++file) {
    if (rank(file) < rank(first)) continue;
    if (rank(file) == rank(first)) {
      if (!is_known) likeness = likeness_of_places(files[first].path, path);
      const PlaceLikeness other = likeness_of_places(files[file].path, path);
      is_known = true;
      if (other <= likeness) continue;
      likeness = other;
    } else {
      is_known = false;
    }
    first = file;
  }
  return {index_, first, folder};
}

void BaseFiles::check_unchanged() const {
  for (const auto& file : opened_) file->check_unchanged();
}

}  // namespace wdelta
