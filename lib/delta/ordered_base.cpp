// SPDX-License-Identifier: Apache-2.0
#include "delta/ordered_base.hpp"

#include "base/reader_digest.hpp"
#include "delta/tensor_names.hpp"

#include <algorithm>

namespace wdelta {

Digest BaseFile::digest(const Execution& execution) const {
  return shared_digest ? shared_digest->of(bytes(), execution) : digest_of(bytes(), execution);
}

AlikeTensors::AlikeTensors(std::vector<BaseTensor> tensors, const std::vector<std::size_t>& folders)
    : tensors_(std::move(tensors)) {
  const bool are_apart = std::ranges::any_of(folders, [&](std::size_t folder) { return folder != folders.front(); });
  for (std::size_t number = 0; number < tensors_.size(); ++number) {
    const auto add_to = [&](TensorNumbers& numbers) {
      numbers.all.push_back(number);
      if (are_apart) numbers.by_folder[folders[tensors_[number].file]].push_back(number);
    };
    const std::string& name = tensors_[number].tensor->name;
    add_to(all_);
    for (const std::string& numbers : first_numbers_of(name)) add_to(by_numbers_[numbers]);
    by_name_[name].push_back(number);
  }
  for (const auto& [name, numbers] : by_name_)
    by_ending_.push_back({&tensors_[numbers.front()].tensor->name, &numbers});
  std::ranges::sort(by_ending_, [](const SameName& a, const SameName& b) { return ends_before(*a.name, *b.name); });
}

std::pair<std::size_t, std::size_t> AlikeTensors::of_file(std::size_t file) const {
  const auto begin = std::ranges::lower_bound(tensors_, file, {}, &BaseTensor::file);
  const auto end = std::ranges::upper_bound(tensors_, file, {}, &BaseTensor::file);
  return {static_cast<std::size_t>(begin - tensors_.begin()), static_cast<std::size_t>(end - tensors_.begin())};
}

const std::vector<std::size_t>* AlikeTensors::named(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &found->second;
}

const TensorNumbers* AlikeTensors::with_numbers(const std::string& numbers) const {
  const auto found = by_numbers_.find(numbers);
  return found == by_numbers_.end() ? nullptr : &found->second;
}

std::size_t AlikeTensors::first_not_before(const std::string& name) const {
  const auto ends = [](const SameName& same, const std::string& other) { return ends_before(*same.name, other); };
  return static_cast<std::size_t>(std::lower_bound(by_ending_.begin(), by_ending_.end(), name, ends) -
                                  by_ending_.begin());
}

namespace {

std::string_view folder_in(std::string_view path) { return path.substr(0, path.find_last_of('/') + 1); }

}  // namespace

BaseIndex::BaseIndex(std::vector<BaseFile> files) : files_(std::move(files)) {
  for (const BaseFile& file : files_) {
    const auto folder = folder_numbers_.try_emplace(std::string(folder_in(file.path)), folder_numbers_.size()).first;
    folders_.push_back(folder->second);
  }
}

std::optional<std::size_t> BaseIndex::find_folder_of(std::string_view path) const {
  const auto found = folder_numbers_.find(folder_in(path));
  return found == folder_numbers_.end() ? std::nullopt : std::optional(found->second);
}

std::span<const BaseTensor> BaseIndex::named(const std::string& name) const {
  std::call_once(names_known_, [this] {
    for (std::size_t file = 0; file < files_.size(); ++file) {
      for (const Tensor& tensor : files_[file].file->header().tensors())
        by_name_[tensor.name].push_back({file, &tensor});
    }
  });
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::span<const BaseTensor>() : found->second;
}

const AlikeTensors* BaseIndex::alike(const Dtype* dtype, std::uint64_t size_bytes) const {
  std::call_once(alike_known_, [this] {
    std::map<std::pair<const Dtype*, std::uint64_t>, std::vector<BaseTensor>> tensors;
    for (std::size_t file = 0; file < files_.size(); ++file) {
      for (const Tensor& tensor : files_[file].file->header().tensors())
        tensors[{tensor.dtype, tensor.size_bytes()}].push_back({file, &tensor});
    }
    for (auto& [kind, of_kind] : tensors) alike_.try_emplace(kind, std::move(of_kind), folders_);
  });
  const auto found = alike_.find({dtype, size_bytes});
  return found == alike_.end() ? nullptr : &found->second;
}

OrderedBase::OrderedBase(std::vector<BaseFile> files) {
  if (!files.empty()) index_ = std::make_shared<BaseIndex>(std::move(files));
}

}  // namespace wdelta
