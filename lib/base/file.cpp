// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include "base/error.hpp"
#include "base/leftovers.hpp"
#include "base/system_call.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <utility>

namespace wdelta {

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = other.release();
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ::close(fd_);
}

int Fd::release() { return std::exchange(fd_, -1); }

namespace {

constexpr std::int64_t k_second_ns = 1'000'000'000;

// Beyond the year 2262 all times are one; settled_ns() has room.
std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t k_most_seconds = INT64_MAX / k_second_ns - 3;
  return std::clamp<std::int64_t>(time.tv_sec, -k_most_seconds, k_most_seconds) * k_second_ns + time.tv_nsec;
}

FileStamp stamp_from(const struct stat& status) {
  FileStamp stamp;
  stamp.size_bytes = static_cast<std::uint64_t>(status.st_size);
  stamp.mtime_ns = nanoseconds(status.st_mtim);
  stamp.ctime_ns = nanoseconds(status.st_ctim);
  stamp.inode = status.st_ino;
  stamp.device = status.st_dev;
  stamp.executable = (status.st_mode & S_IXUSR) != 0;
  return stamp;
}

void require_regular(const struct stat& status, const std::string& name) {
  if (S_ISREG(status.st_mode)) return;
  throw Error(Fault::local, name, S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file");
}

}  // namespace

// A file system that counts parts of seconds at all does so at least by the ticks of a system's clock (up to 10 ms; of
// Windows', which may serve it, 15.6). The coarsest is FAT, with two seconds; NFS and ext3 may have one.
std::int64_t settled_ns(const FileStamp& stamp) {
  constexpr std::int64_t k_fine_grain_ns = 20'000'000;
  const bool is_fine = stamp.mtime_ns % k_second_ns != 0 && stamp.ctime_ns % k_second_ns != 0;
  return std::max(stamp.mtime_ns, stamp.ctime_ns) + (is_fine ? k_fine_grain_ns : 2 * k_second_ns);
}

std::optional<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    throw system_error(errno, path.string(), "stat");
  }
  require_regular(status, path.string());
  return stamp_from(status);
}

std::optional<std::int64_t> set_times_to_now(const std::filesystem::path& path) {
  const timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
  struct stat status {};
  if (::utimensat(AT_FDCWD, path.c_str(), now, AT_SYMLINK_NOFOLLOW) != 0 || ::lstat(path.c_str(), &status) != 0)
    return std::nullopt;
  return nanoseconds(status.st_mtim);
}

File File::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a FIFO by mistake must fail below, not wait for a writer.
  Fd fd(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd) throw system_error(errno, path.string(), "open");
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw system_error(errno, path.string(), "stat");
  require_regular(status, path.string());
  ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return File(std::move(fd), path.string(), stamp_from(status));
}

namespace {
// Read, not mapped: a file that another program cuts off would end this one by SIGBUS. Where mapping pays,
// HashingReader does it.
void read_fully(int fd, const std::string& name, std::uint64_t offset, std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got =
        uninterrupted([&] { return ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (got < 0) throw system_error(errno, name, "read");
    if (got == 0) throw Error(Fault::local, name, "became shorter while it was read");
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}
}  // namespace

void File::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  read_fully(fd_.get(), name_, offset, bytes);
}

void File::check_unchanged() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw system_error(errno, name_, "stat");
  if (stamp_from(status) != stamp_) refuse_changed();
}

namespace {

// Tries names beside `path` until `make` has made one. Not mkostemp(3): its files are private, and an output has the
// mode that any other new file has, which only open(2) and mkdir(2) can find out while other threads do the same.
template <typename Make>
std::filesystem::path make_beside(const std::filesystem::path& path, Make make) {
  for (;;) {
    std::filesystem::path temporary = temporary_name_for(path);
    if (make(temporary)) return temporary;
    if (errno != EEXIST) throw system_error(errno, path.string(), "create");
  }
}

// The mode of what replaces something and has another group: each of the two is now, or was, among the others.
mode_t without_group(mode_t mode) {
  const mode_t both = (mode & S_IRWXO) & ((mode & S_IRWXG) >> 3);
  return (mode & ~mode_t{S_ISGID | S_IRWXG | S_IRWXO}) | both << 3 | both;
}

}  // namespace

void require_replaceable(const std::filesystem::path& path) {
  struct stat status {};
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
  read_fully(fd_.get(), path_.string(), offset, bytes);
}

void OutputFile::sync() {
  if (uninterrupted([&] { return ::fsync(fd_.get()); }) != 0) throw system_error(errno, path_.string(), "sync");
  is_synced_ = true;
}

FileStamp OutputFile::stamp() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) throw system_error(errno, path_.string(), "stat");
  return stamp_from(status);
}

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

namespace {

// All the work would be done before the system says so.
void require_replaceable_directory(const std::filesystem::path& path) {
  const auto refuse = [&](const char* what) {
    return Error(Fault::local, path.string(), what, "name a directory that does not exist");
  };
  const std::filesystem::path name = path.filename();
  constexpr std::size_t k_longest_name = 255;
  if (name == "." || name == "..") throw refuse("is no name that a directory can be given");
  if (name.native().size() > k_longest_name) throw refuse("has a longer name than file systems take");
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return;
  if (S_ISLNK(status.st_mode)) throw refuse("is a symlink");
  struct stat around {};
  const std::filesystem::path parent = path.has_parent_path() ? path.parent_path() : ".";
  if (::stat(parent.c_str(), &around) == 0 && around.st_dev != status.st_dev) throw refuse("is a mount point");
}

}  // namespace

OutputDirectory::OutputDirectory(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  const bool is_directory = std::filesystem::is_directory(path_, error);
  if (std::filesystem::exists(path_, error) && (!is_directory || !std::filesystem::is_empty(path_, error))) {
    throw Error(Fault::local, path_.string(), "exists and is not an empty directory",
                "name a directory that does not exist");
  }
  while (path_.has_relative_path() && !path_.has_filename()) path_ = path_.parent_path();  // DIR/ means DIR
  require_replaceable_directory(path_);
  remove_leftovers_of(path_);
  temporary_ = make_beside(path_, [&](const std::filesystem::path& temporary) {
    if (::mkdir(temporary.c_str(), 0777) != 0) return false;
    claim_ = Fd(::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return !claim_ || claim_temporary(claim_.get());
  });
  struct stat replaced {};
  if (::stat(path_.c_str(), &replaced) != 0) return;
  const bool has_group = ::chown(temporary_.c_str(), static_cast<uid_t>(-1), replaced.st_gid) == 0;
  const mode_t mode = has_group ? replaced.st_mode : without_group(replaced.st_mode);
  const mode_t permissions = (mode & 07777) | S_IRWXU;  // it is going to be filled
  if (::chmod(temporary_.c_str(), permissions) == 0) return;
  const int code = errno;
  ::rmdir(temporary_.c_str());  // no destructor does it where the constructor throws
  throw system_error(code, path_.string(), "set mode");
}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

void OutputDirectory::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) throw system_error(errno, path_.string(), "rename into place");
  temporary_.clear();
}

void write_file(const std::filesystem::path& path, std::string_view content, Overwrite overwrite,
                Durability durability) {
  OutputFile output(path);
  output.append(content);
  output.commit(overwrite, durability);
}

std::string read_small_file(const std::filesystem::path& path, std::uint64_t limit_bytes) {
  const File file = File::open(path);
  if (file.size_bytes() > limit_bytes) {
    throw Error(Fault::corrupt, path.string(),
                fmt::format("has {} bytes, at most {} expected", file.size_bytes(), limit_bytes));
  }
  std::string text(file.size_bytes(), '\0');
  file.read_at(0, std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()));
  return text;
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return;
  const Error refused = system_error(error.value(), path.string(), "create directory");
  throw Error(Fault::local, refused.object(), refused.what(), refused.hint());  // never that there is none
}

void sync_directory(const std::filesystem::path& path) {
  const Fd fd(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (!fd) throw system_error(errno, path.string(), "open directory");
  if (uninterrupted([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EROFS) {
    throw system_error(errno, path.string(), "sync directory");
  }
}

}  // namespace wdelta
