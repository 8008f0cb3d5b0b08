// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <atomic>
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

enum class Overwrite {
  no,         ///< of all who try, one gets the name; needs hard links
  no_rivals,  ///< the same where nobody else writes, as in a directory that is not visible yet; any file system will do
  yes
};
/// `synced`: on the disk before its name appears. `cached`: left to the system, as cp leaves it.
enum class Durability { cached, synced };

/// For output files that a user names: throws local where a directory is there, or a device, a pipe or a socket, or a
/// symlink to one, which a file would take the place of, and nothing would come out of it. Any other symlink is
/// replaced itself: what it leads to, as a blob of the Hub's cache, may be named by what is in it.
void require_replaceable(const std::filesystem::path& path);

/// A file that appears under its name only by commit(), whole. Until then it lies beside it under a temporary name that
/// the destructor removes; nothing else here may make an output visible.
class OutputFile {
 public:
  /// Creates the temporary file; the directory must exist.
  /// `expected`: how it is going to be committed. Where that is synced, the disk is given work while more is written,
  /// so that the commit finds little left to wait for.
  explicit OutputFile(std::filesystem::path path, Durability expected = Durability::cached);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// Safe from several threads for ranges that do not overlap.
  void write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes);
  /// Writes behind what append() wrote so far. One thread.
  void append(std::span<const std::uint8_t> bytes);
  void append(std::string_view text);
  std::uint64_t appended_bytes() const { return appended_; }
  /// Sets the size, so that write_at may fill it in any order; reports a full disk early where it can.
  void reserve(std::uint64_t size_bytes);
  /// Shares all bytes of `file` with it, which takes neither time nor room; whether the file system can do that.
  /// Nothing must have been written yet.
  bool clone(const File& file);
  /// Has the kernel copy up to so many bytes of `file` from `offset` to the same place; returns how many, 0 when it
  /// cannot. Some file systems say that they did and did not: look at what arrived.
  std::uint64_t copy_range(const File& file, std::uint64_t offset, std::uint64_t size_bytes);
  /// Takes a file that another program of ours wrote, named `path` and open as `file`, in place of what was written so
  /// far, with the mode and the group that this one has. False, and nothing changed, where that cannot be done, as from
  /// another file system.
  bool adopt(Fd& file, const std::filesystem::path& path);
  void set_executable();
  /// Gives it those of a file, if there is one, and its group: of what it is going to replace nobody shall read more
  /// than before. Before anything is written, then. Where the system does not let us give it that group, the group that
  /// it has and all others get what both had.
  void take_permissions_of(const std::filesystem::path& path);
  /// Gives it permissions that the umask would have taken.
  void add_permissions(std::filesystem::perms added);
  /// Bytes that it has by now.
  std::uint64_t size_bytes() const;
  /// Reads back what was written.
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const;
  /// Whether bytes did not get into it, as on a full disk, and another source of them would be of no use.
  bool has_failed() const { return has_failed_; }
  /// Has all of it on the disk, so that a commit() that is synced only has the name to see to.
  void sync();
  FileStamp stamp() const;
  /// Gives the file its name. Unless it overwrites, throws conflict when the name is taken.
  void commit(Overwrite overwrite, Durability durability);
  /// The same under another name in a directory of the same file system.
  void commit_as(const std::filesystem::path& path, Overwrite overwrite, Durability durability);

 private:
  /// Throws what errno says.
  [[noreturn]] void fail(const char* what);

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Fd fd_;
  std::uint64_t appended_ = 0;
  Durability expected_;
  std::atomic<bool> is_synced_ = false;
  std::atomic<bool> has_failed_ = false;
};

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

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  Fd claim_;
};

/// Writes a small file whole or not at all.
void write_file(const std::filesystem::path& path, std::string_view content, Overwrite overwrite,
                Durability durability);
/// Reads a file of at most `limit_bytes`; throws corrupt when it is larger.
std::string read_small_file(const std::filesystem::path& path, std::uint64_t limit_bytes);
/// mkdir -p; throws local.
void make_directories(const std::filesystem::path& path);
/// Makes a rename in it durable. File systems that refuse to sync a directory (EINVAL) are taken at their word.
void sync_directory(const std::filesystem::path& path);

}  // namespace wdelta
