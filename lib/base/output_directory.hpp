// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "base/file.hpp"

#include <filesystem>

namespace wdelta {

/// A directory that appears under its name only by commit(), with all that was put into it.
class OutputDirectory {
 public:
  /// Throws local when `path` exists and is not an empty directory, or is one that cannot be replaced: a symlink, a
  /// mount point, or named by a dot. Removes what killed programs left of it. Has the permissions and the group of the
  /// one that it replaces, as OutputFile::take_permissions_of() says.
  explicit OutputDirectory(std::filesystem::path path);
  OutputDirectory(const OutputDirectory&) = delete;
  ~OutputDirectory();

  /// Where to put things until then.
  const std::filesystem::path& inside() const { return temporary_; }
  void commit();
  /// An error of something inside, by the path that this was going to have: nobody has heard of the other.
  Error as_named(const Error& error) const;

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Fd claim_;
};

}  // namespace wdelta
