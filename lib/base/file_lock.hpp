// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/file.hpp"

#include <filesystem>

namespace wdelta {

/// Holds an advisory lock (flock) on a file that it makes, until it is destroyed. The kernel lets go of it when the
/// process dies, however it dies.
class FileLock {
 public:
  /// Waits for whoever has it, and notes `waiting` once when there is someone. Throws interrupted when told to stop. On
  /// a file system without locks it notes that and goes on without.
  FileLock(const std::filesystem::path& path, std::string_view waiting, const Execution& execution);

  /// Whether there is a lock at all.
  bool is_held() const { return held_; }
  /// Whether the path still names the file that is locked. It does not when whoever had the lock before moved or
  /// removed the directory that the file is in; then the lock is worth nothing.
  bool is_in_place() const;

 private:
  std::filesystem::path path_;
  Fd fd_;
  bool held_ = true;
};

}  // namespace wdelta
