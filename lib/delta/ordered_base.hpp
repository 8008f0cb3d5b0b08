// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/shared_digest.hpp"
#include "delta/rebuilt_file.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace wdelta {

/// One file of the checkpoint that a delta applies to.
struct BaseFile {
  std::string path;
  std::shared_ptr<const RebuiltFile> file;
  /// The file as it is, where `file` sees an opaque one at another size; else null.
  std::shared_ptr<const ByteReader> unresized = nullptr;
  /// Where other files are compared with it too: its digest, for all of them.
  std::shared_ptr<SharedDigest> shared_digest = nullptr;

  const ByteReader& bytes() const { return unresized ? *unresized : *file; }
  /// Of its bytes as they are at this moment.
  Digest digest(const Execution& execution) const;
};

/// A tensor of a base.
struct BaseTensor {
  std::size_t file = 0;  ///< the number of its file
  const Tensor* tensor = nullptr;
};

/// Tensors out of AlikeTensors by their numbers, ascending.
struct TensorNumbers {
  std::vector<std::size_t> all;
  std::map<std::size_t, std::vector<std::size_t>> by_folder;  ///< the same; only where there are several
};

/// The tensors of a base that have one dtype and number of elements, in the order of the base.
class AlikeTensors {
 public:
  struct SameName {
    const std::string* name;
    const std::vector<std::size_t>* numbers;  ///< of different files, ascending
  };

  /// `folders`: of each file of the base.
  AlikeTensors(std::vector<BaseTensor> tensors, const std::vector<std::size_t>& folders);
  AlikeTensors(const AlikeTensors&) = delete;

  const BaseTensor& operator[](std::size_t number) const { return tensors_[number]; }
  const TensorNumbers& all() const { return all_; }
  /// Those of a file: from the first up to the second.
  std::pair<std::size_t, std::size_t> of_file(std::size_t file) const;
  /// Those of that name; null for none.
  const std::vector<std::size_t>* named(const std::string& name) const;
  /// Those with these first_numbers_of() in their names; null for none.
  const TensorNumbers* with_numbers(const std::string& numbers) const;
  /// In the order of ends_before().
  std::span<const SameName> by_ending() const { return by_ending_; }
  /// The first in by_ending() that does not end before `name`.
  std::size_t first_not_before(const std::string& name) const;

 private:
  std::vector<BaseTensor> tensors_;
  TensorNumbers all_;
  std::map<std::string_view, std::vector<std::size_t>> by_name_;
  std::map<std::string, TensorNumbers> by_numbers_;
  std::vector<SameName> by_ending_;
};

/// The files of a base and where its tensors are. What is looked up is made once, when the first file asks that is
/// compared with it: most need nothing of it, and others follow. Safe to use from several threads.
class BaseIndex {
 public:
  explicit BaseIndex(std::vector<BaseFile> files);
  BaseIndex(const BaseIndex&) = delete;

  const std::vector<BaseFile>& files() const { return files_; }
  /// The folder that a file lies in, as a number.
  std::size_t folder_of(std::size_t file) const { return folders_[file]; }
  /// The number of the folder that `path` lies in; nothing where none of the files does.
  std::optional<std::size_t> find_folder_of(std::string_view path) const;
  /// The tensors of that name, in the order of files.
  std::span<const BaseTensor> named(const std::string& name) const;
  /// Those of one dtype and size; null for none.
  const AlikeTensors* alike(const Dtype* dtype, std::uint64_t size_bytes) const;

 private:
  std::vector<BaseFile> files_;
  std::vector<std::size_t> folders_;
  std::map<std::string, std::size_t, std::less<>> folder_numbers_;
  mutable std::once_flag names_known_;
  mutable std::map<std::string_view, std::vector<BaseTensor>> by_name_;
  mutable std::once_flag alike_known_;
  mutable std::map<std::pair<const Dtype*, std::uint64_t>, AlikeTensors> alike_;
};

/// The files of a base in the order in which one file is compared with them. Refers to the base, and keeps it open.
class OrderedBase {
 public:
  /// Nothing to compare with.
  OrderedBase() = default;
  /// In this order.
  OrderedBase(std::vector<BaseFile> files);
  /// First file number `first`, then those in that folder, where one is given, then the others.
  OrderedBase(std::shared_ptr<const BaseIndex> index, std::size_t first, std::optional<std::size_t> folder)
      : index_(std::move(index)), first_(first), folder_(folder) {}

  bool empty() const { return index_ == nullptr; }
  /// Of one that is not empty, as all that follows.
  const BaseIndex& index() const { return *index_; }
  const BaseFile& front() const { return index_->files()[first_]; }
  /// The numbers of these in index().
  std::size_t first() const { return first_; }
  const std::optional<std::size_t>& folder() const { return folder_; }
  /// Whether that file comes before the other one.
  bool comes_before(std::size_t file, std::size_t other) const { return place_of(file) < place_of(other); }

 private:
  std::pair<int, std::size_t> place_of(std::size_t file) const {
    if (file == first_) return {0, file};
    return {folder_ && index_->folder_of(file) == *folder_ ? 1 : 2, file};
  }

  std::shared_ptr<const BaseIndex> index_;
  std::size_t first_ = 0;
  std::optional<std::size_t> folder_;
};

}  // namespace wdelta
