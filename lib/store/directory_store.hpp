// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/output_file.hpp"
#include "store/store.hpp"

#include <filesystem>

namespace wdelta {

/// Keys as files below a directory. create() is link(2), which has one winner on every POSIX file system, over NFS too.
/// Large objects are staged in the directory itself, so that keeping one is a rename. In a directory that is setgid and
/// group-writable, everything made is for the group too, whatever the umask; else modes follow the umask.
class DirectoryStore final : public Store {
 public:
  explicit DirectoryStore(const std::filesystem::path& root);

  const std::string& name() const override { return name_; }
  std::shared_ptr<const ByteReader> get(const std::string& key) const override;
  void put(const std::string& key, std::string_view bytes) override;
  OutputFile stage() override;
  std::filesystem::path staging_path() override;
  void put_staged(const std::string& key, OutputFile&& staged) override;
  bool create(const std::string& key, std::string_view bytes) override;
  std::vector<Listed> list(const std::string& prefix) const override;
  std::optional<std::uint64_t> free_bytes() const override;
  void remove(const std::string& key) override;
  bool remove_older(const std::string& key, std::int64_t time_s) override;
  void bring_back() override;
  void remove_leftovers(std::int64_t time_s, const IsOurs& is_ours) override;

 private:
  std::filesystem::path path_of(const std::string& key) const;
  /// Whether it lies below the directory of its kind, and not behind a symlink there: what one leads to may be somebody
  /// else's. The directories of kinds may be links, to another disk.
  bool is_removable(const std::filesystem::path& path) const;
  std::filesystem::path path_for_writing(const std::string& key);
  void make_folder(const std::filesystem::path& path);
  void put_back(const std::filesystem::path& aside, const std::string& key);
  void commit(OutputFile& output, const std::filesystem::path& path, Overwrite overwrite) const;

  std::filesystem::path root_;
  std::string name_;
  bool for_group_;
};

}  // namespace wdelta
