// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/file.hpp"

#include <filesystem>
#include <sys/types.h>

namespace wdelta {

/// Holds an advisory lock (flock) on a file that it makes, until the process that took it destroys it. The kernel lets
/// go of it when that process dies, however it dies, unless it was forked meanwhile: then when the last of its children
/// did.
class FileLock {
 public:
  /// Waits for whoever has it, and notes `waiting` once when there is someone. Throws interrupted when told to stop. On
  /// a file system without locks it notes that and goes on without.
  FileLock(const std::filesystem::path& path, std::string_view waiting, const Execution& execution);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock() { let_go(); }

  /// Whether there is a lock at all.
  bool is_held() const { return held_; }
  /// Whether the path still names the file that is locked. It does not when whoever had the lock before moved or
  /// removed the directory that the file is in; then the lock is worth nothing.
  bool is_in_place() const;

 private:
  void let_go();

  std::filesystem::path path_;
  Fd fd_;
  bool held_ = true;
  pid_t owner_;
};

}  // namespace wdelta
