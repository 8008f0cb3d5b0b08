// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/file.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <sys/types.h>

namespace wdelta {

enum class Overwrite {
  no,         ///< of all who try, one gets the name; needs hard links
  no_rivals,  ///< the same where nobody else writes, as in a directory that is not visible yet; any file system will do
  yes
};
/// `synced`: on the disk before its name appears. `cached`: left to the system, as cp leaves it.
enum class Durability { cached, synced };

/// For output files that a user names: throws local where a directory is there, or a device, a pipe or a socket, or a
/// symlink to one, which a file would take the place of, and nothing would come out of it; and for what leads to a file
/// that a program has open, as /dev/stdout does, wherever that is redirected to. Any other symlink is replaced itself:
/// what it leads to, as a blob of the Hub's cache, may be named by what is in it.
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

/// The mode of what takes the place of something of that mode and cannot be given its group: see
/// OutputFile::take_permissions_of().
mode_t without_group(mode_t mode);

/// Writes a small file whole or not at all.
void write_file(const std::filesystem::path& path, std::string_view content, Overwrite overwrite,
                Durability durability);

}  // namespace wdelta
