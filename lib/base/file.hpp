// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

namespace wdelta {

/// An owned file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept;
  ~Fd();

  int get() const { return fd_; }
  int release();
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// What tells cheaply that a file is still the one that was looked at.
struct FileStamp {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  bool executable = false;    ///< by its owner
  std::int64_t ctime_ns = 0;  ///< of any change, renames and new hard links too: not compared by ==

  bool operator==(const FileStamp& other) const {
    const auto compared = [](const FileStamp& stamp) {
      return std::tie(stamp.size_bytes, stamp.mtime_ns, stamp.inode, stamp.device, stamp.executable);
    };
    return compared(*this) == compared(other);
  }
};

/// From when on, by the clock of its file system, no change leaves a file both its mtime and its ctime.
std::int64_t settled_ns(const FileStamp& stamp);

/// Sets the times of a file to now, which is returned, by the clock of its file system. Nothing where that cannot be
/// done.
std::optional<std::int64_t> set_times_to_now(const std::filesystem::path& path);

/// The stamp of a file that is open, named `name` in messages. Throws local.
FileStamp stamp_of(const Fd& file, const std::string& name);

/// The stamp of a regular file, symlinks followed; nothing when there is none. Throws local for anything else there.
std::optional<FileStamp> stamp_of(const std::filesystem::path& path);

/// A regular file open for reading. Symlinks are followed: a Hub cache snapshot is made of them.
class File final : public ByteReader {
 public:
  /// Throws not_found, or local when it is not a regular file or cannot be opened.
  static File open(const std::filesystem::path& path);

  std::uint64_t size_bytes() const override { return stamp_.size_bytes; }
  /// Throws local when the file is shorter than it was when it was opened.
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override { return name_; }
  std::size_t piece_bytes() const override { return k_small_piece_bytes; }

  const FileStamp& stamp() const { return stamp_; }
  /// Goes by the whole stamp but for ctime: who only links or renames the file changes that.
  void check_unchanged() const override;
  /// Up to when a change may have left the stamp as it is now: settled_ns() of it.
  std::optional<std::int64_t> changed_ns() const override;
  std::optional<MappedStretch> map(std::uint64_t offset, std::size_t size_bytes) const override {
    return MappedStretch::of(fd_.get(), offset, size_bytes);
  }

 private:
  friend class OutputFile;
  File(Fd fd, std::string name, FileStamp stamp) : fd_(std::move(fd)), name_(std::move(name)), stamp_(stamp) {}
  Fd fd_;
  std::string name_;
  FileStamp stamp_;
};

/// Fills `bytes` from `offset` of a file that is open, named `name` in messages. Throws local when it ends before.
void read_fully(const Fd& file, const std::string& name, std::uint64_t offset, std::span<std::uint8_t> bytes);
/// Reads a file of at most `limit_bytes`; throws corrupt when it is larger.
std::string read_small_file(const std::filesystem::path& path, std::uint64_t limit_bytes);
/// mkdir -p; throws local.
void make_directories(const std::filesystem::path& path);
/// Makes a rename in it durable. File systems that refuse to sync a directory (EINVAL) are taken at their word.
void sync_directory(const std::filesystem::path& path);

}  // namespace wdelta
