// SPDX-License-Identifier: Apache-2.0
#include "base/output_file.hpp"

#include "base/error.hpp"
#include "base/leftovers.hpp"
#include "base/system_call.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

namespace wdelta {

namespace {

// Whether a path is, or is a symlink to, a file that some program has open, as /dev/stdout and /dev/fd/1 are.
bool is_of_open_file(std::filesystem::path path) {
  constexpr int k_most_symlinks = 40;
  std::error_code error;
  for (int followed = 0; followed < k_most_symlinks && !error; ++followed) {
    const std::filesystem::path folder = std::filesystem::weakly_canonical(path.parent_path() / ".", error);
    if (folder.string().starts_with("/proc/")) return true;
    path = folder / path.filename();
    if (!std::filesystem::is_symlink(path, error)) return false;
    path = folder / std::filesystem::read_symlink(path, error);
  }
  return false;
}

}  // namespace

void require_replaceable(const std::filesystem::path& path) {
  struct stat status {};
  if (is_of_open_file(path)) {
    throw Error(Fault::local, path.string(), "leads to a file that is open, and an output would take its place",
                "name a file");
  }
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode))
    throw Error(Fault::local, path.string(), "is a directory, and the output is a file", "name a file in it");
  throw Error(Fault::local, path.string(), "is not a regular file, and an output would take its place", "name a file");
}

OutputFile::OutputFile(std::filesystem::path path, Durability expected) : path_(std::move(path)), expected_(expected) {
  temporary_ = make_beside(path_, [&](const std::filesystem::path& temporary) {
    fd_ = Fd(uninterrupted([&] { return ::open(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
    return fd_ && claim_temporary(fd_.get());
  });
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      appended_(other.appended_),
      expected_(other.expected_),
      is_synced_(other.is_synced_.load()),
      has_failed_(other.has_failed()) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(fd_, other.fd_);
  std::swap(appended_, other.appended_);
  std::swap(expected_, other.expected_);
  is_synced_ = other.is_synced_.exchange(is_synced_);
  has_failed_ = other.has_failed_.exchange(has_failed_);
  return *this;
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void OutputFile::fail(const char* what) {
  const int code = errno;
  has_failed_ = true;
  throw system_error(code, path_.string(), what);
}

// In pieces of an aligned 256 KiB. For larger ones the kernel looks for as large a stretch of free memory, which takes
// it seconds now and then (Linux 6.18, ext4, 1 GiB: 0.11 s of processor time in pieces of 256 KiB, up to 1.7 in pieces
// of 1 MiB); pieces that lie across pages are copied at half the speed.
void OutputFile::write_at(std::uint64_t offset, std::span<const std::uint8_t> bytes) {
  constexpr std::uint64_t k_write_bytes = std::uint64_t{256} << 10;
  constexpr std::uint64_t k_write_back_bytes = std::uint64_t{4} << 20;  // what is worth a request to the disk
  is_synced_ = false;
  const std::uint64_t first = offset / k_write_back_bytes * k_write_back_bytes;
  const std::uint64_t last = (offset + bytes.size()) / k_write_back_bytes * k_write_back_bytes;
  while (!bytes.empty()) {
    const auto size = std::min<std::uint64_t>(bytes.size(), k_write_bytes - offset % k_write_bytes);
    const ssize_t wrote = uninterrupted(
        [&] { return ::pwrite(fd_.get(), bytes.data(), static_cast<std::size_t>(size), static_cast<off_t>(offset)); });
    if (wrote < 0) fail("write");
    offset += static_cast<std::uint64_t>(wrote);
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  // Only a hint: where it fails, the sync has more to do.
  if (expected_ == Durability::synced && first < last) {
    ::sync_file_range(fd_.get(), static_cast<off64_t>(first), static_cast<off64_t>(last - first),
                      SYNC_FILE_RANGE_WRITE);
  }
}

void OutputFile::append(std::span<const std::uint8_t> bytes) {
  write_at(appended_, bytes);
  appended_ += bytes.size();
}

void OutputFile::append(std::string_view text) {
  append(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
}

void OutputFile::reserve(std::uint64_t size_bytes) {
  if (size_bytes == 0) return;
  // Without a reservation a full disk shows only after minutes of work. Not every file system can reserve.
  if (uninterrupted([&] { return ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(size_bytes)); }) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) fail("reserve space");
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_bytes)) != 0) fail("set size");
}

bool OutputFile::clone(const File& file) {
  struct stat status {};
  return ::ioctl(fd_.get(), FICLONE, file.fd_.get()) == 0 && ::fstat(fd_.get(), &status) == 0 &&
         static_cast<std::uint64_t>(status.st_size) == file.size_bytes();
}

std::uint64_t OutputFile::copy_range(const File& file, std::uint64_t offset, std::uint64_t size_bytes) {
  auto from = static_cast<off64_t>(offset);
  auto to = from;
  const ssize_t copied =
      uninterrupted([&] { return ::copy_file_range(file.fd_.get(), &from, fd_.get(), &to, size_bytes, 0); });
  if (copied < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) fail("write");
  return copied < 0 ? 0 : static_cast<std::uint64_t>(copied);
}

bool OutputFile::adopt(Fd& file, const std::filesystem::path& path) {
  struct stat ours {};
  struct stat theirs {};
  if (::fstat(fd_.get(), &ours) != 0 || ::fstat(file.get(), &theirs) != 0 || ours.st_dev != theirs.st_dev) return false;
  constexpr mode_t k_permissions = 07777;
  if (theirs.st_gid != ours.st_gid && ::fchown(file.get(), static_cast<uid_t>(-1), ours.st_gid) != 0) return false;
  if (::fchmod(file.get(), ours.st_mode & k_permissions) != 0) return false;
  if (::rename(path.c_str(), temporary_.c_str()) != 0) return false;
  fd_ = std::move(file);
  return true;
}

void OutputFile::set_executable() {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw system_error(errno, path_.string(), "stat");
  // x wherever r is, as git does.
  if (::fchmod(fd_.get(), status.st_mode | ((status.st_mode & 0444) >> 2)) != 0) {
    throw system_error(errno, path_.string(), "set mode");
  }
}

// Each of the two groups is now, or was, among the others.
mode_t without_group(mode_t mode) {
  const mode_t both = (mode & S_IRWXO) & ((mode & S_IRWXG) >> 3);
  return (mode & ~mode_t{S_ISGID | S_IRWXG | S_IRWXO}) | both << 3 | both;
}

void OutputFile::take_permissions_of(const std::filesystem::path& path) {
  constexpr mode_t k_permissions = 0777;
  struct stat replaced {};
  if (::stat(path.c_str(), &replaced) != 0 || !S_ISREG(replaced.st_mode)) return;
  const bool has_group = ::fchown(fd_.get(), static_cast<uid_t>(-1), replaced.st_gid) == 0;
  const mode_t mode = has_group ? replaced.st_mode : without_group(replaced.st_mode);
  if (::fchmod(fd_.get(), mode & k_permissions) != 0) throw system_error(errno, path_.string(), "set mode");
}

void OutputFile::add_permissions(std::filesystem::perms added) {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw system_error(errno, path_.string(), "stat");
  if (::fchmod(fd_.get(), status.st_mode | static_cast<mode_t>(added)) != 0) {
    throw system_error(errno, path_.string(), "set mode");
  }
}

std::uint64_t OutputFile::size_bytes() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw system_error(errno, path_.string(), "stat");
  return static_cast<std::uint64_t>(status.st_size);
}

void OutputFile::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  read_fully(fd_, path_.string(), offset, bytes);
}

void OutputFile::sync() {
  if (uninterrupted([&] { return ::fsync(fd_.get()); }) != 0) throw system_error(errno, path_.string(), "sync");
  is_synced_ = true;
}

FileStamp OutputFile::stamp() const { return stamp_of(fd_, path_.string()); }

void OutputFile::commit(Overwrite overwrite, Durability durability) { commit_as(path_, overwrite, durability); }

namespace {
// NFS first gives a file that is held another name, so that for a moment there is none under its own. Hence only where
// files are known to need no name.
bool replaces_held_files_at_once(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return false;
  constexpr std::array<std::int64_t, 4> k_systems = {BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC};
  return std::ranges::find(k_systems, std::int64_t{system.f_type}) != k_systems.end();
}
}  // namespace

void OutputFile::commit_as(const std::filesystem::path& path, Overwrite overwrite, Durability durability) {
  if (durability == Durability::synced && !is_synced_) sync();
  struct stat status {};
  if (overwrite == Overwrite::no_rivals && ::lstat(path.c_str(), &status) == 0) {
    throw Error(Fault::conflict, path.string(), "exists already");
  }
  if (overwrite != Overwrite::no) {
    // What lies there is let go behind the rename: to free its bytes the system would else keep the directory locked,
    // and other threads that put files there wait (Linux 6.18).
    const Fd replaced(replaces_held_files_at_once(fd_.get()) ? ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)
                                                             : -1);
    if (::rename(temporary_.c_str(), path.c_str()) != 0) throw system_error(errno, path.string(), "rename into place");
    temporary_.clear();
  } else {
    if (::link(temporary_.c_str(), path.c_str()) != 0) {
      if (errno == EEXIST) throw Error(Fault::conflict, path.string(), "exists already");
      if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS) {
        throw Error(Fault::unsupported, path.string(),
                    "this file system has no hard links, so a file cannot be created only if it is not there",
                    "keep the repository on another file system");
      }
      throw system_error(errno, path.string(), "link into place");
    }
    // The destructor removes the temporary name.
  }
  if (durability == Durability::synced) sync_directory(path.has_parent_path() ? path.parent_path() : ".");
}

void write_file(const std::filesystem::path& path, std::string_view content, Overwrite overwrite,
                Durability durability) {
  OutputFile output(path);
  output.append(content);
  output.commit(overwrite, durability);
}

}  // namespace wdelta
