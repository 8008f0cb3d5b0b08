// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"

#include "base/error.hpp"
#include "base/system_call.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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

FileStamp stamp_of(const Fd& file, const std::string& name) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw system_error(errno, name, "stat");
  return stamp_from(status);
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

// Read, not mapped: a file that another program cuts off would end this one by SIGBUS. Where mapping pays,
// HashingReader does it.
void read_fully(const Fd& file, const std::string& name, std::uint64_t offset, std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t got =
        uninterrupted([&] { return ::pread(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
    if (got < 0) throw system_error(errno, name, "read");
    if (got == 0) throw Error(Fault::local, name, "became shorter while it was read");
    offset += static_cast<std::uint64_t>(got);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
}

void File::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const { read_fully(fd_, name_, offset, bytes); }

void File::check_unchanged() const {
  if (stamp_of(fd_, name_) != stamp_) refuse_changed();
}

std::optional<std::int64_t> File::changed_ns() const {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return std::nullopt;
  return settled_ns(stamp_from(status));
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
