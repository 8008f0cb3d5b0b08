// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that makes a directory behave like one on a poorer file system: chosen calls fail there.
//
//   FAULT_BELOW=/absolute/path  FAULT_POINTS=flock=ENOLCK,link=EPERM  LD_PRELOAD=fault-points.so  wdelta …
//
// A call fails when what it is about lies below that path, each time; with EINTR, every second time. Besides errno
// names there are SHORT (at most 1000 bytes are read or written) and ZERO (it succeeds and has done nothing, as a
// broken copy_file_range does; statvfs finds a file system of no blocks).
//
//   FAULT_THREADS=2  FAULT_REFUSED=/absolute/path  LD_PRELOAD=fault-points.so  wdelta …
//
// The system has no more than two threads for the program beside its first. When one is refused, that file is made.
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace {

constexpr int k_short = -1;
constexpr int k_zero = -2;

struct Named {
  std::string_view name;
  int number;
};
constexpr Named k_faults[] = {
    {"EACCES", EACCES}, {"EBUSY", EBUSY},   {"EDQUOT", EDQUOT}, {"EINTR", EINTR},           {"EINVAL", EINVAL},
    {"EIO", EIO},       {"ENOLCK", ENOLCK}, {"ENOSPC", ENOSPC}, {"ENOSYS", ENOSYS},         {"EPERM", EPERM},
    {"ESTALE", ESTALE}, {"EXDEV", EXDEV},   {"SHORT", k_short}, {"EOPNOTSUPP", EOPNOTSUPP}, {"ZERO", k_zero},
};

bool is_below(std::string_view path) {
  const char* below = std::getenv("FAULT_BELOW");
  if (below == nullptr || !path.starts_with(below)) return false;
  const std::size_t length = std::strlen(below);
  return path.size() == length || path[length] == '/';
}

std::string path_of(int fd) {
  char path[4096];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

// What `call` is to do about `path`: 0, an errno, or one of the two above.
int fault_at(std::string_view call, std::string_view path) {
  const char* points = std::getenv("FAULT_POINTS");
  if (points == nullptr || !is_below(path)) return 0;
  for (std::string_view rest = points; !rest.empty();) {
    const std::string_view point = rest.substr(0, rest.find(','));
    rest.remove_prefix(point.size() == rest.size() ? point.size() : point.size() + 1);
    const std::size_t equals = point.find('=');
    if (equals == std::string_view::npos || point.substr(0, equals) != call) continue;
    for (const Named& fault : k_faults) {
      if (fault.name != point.substr(equals + 1)) continue;
      static std::atomic<unsigned> interruptions = 0;
      return fault.number == EINTR && interruptions++ % 2 == 1 ? 0 : fault.number;
    }
    std::abort();  // a test that is written wrong
  }
  return 0;
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

template <typename Result>
Result failed(int number) {
  errno = number;
  return static_cast<Result>(-1);
}

std::size_t shortened(std::size_t size_bytes) { return size_bytes < 1000 ? size_bytes : 1000; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto next = real<int(const char*, int, ...)>("open");
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (const int fault = fault_at("open", path)) return failed<int>(fault);
  return next(path, flags, mode);
}

ssize_t pread(int fd, void* bytes, size_t size, off_t offset) {
  static const auto next = real<ssize_t(int, void*, size_t, off_t)>("pread");
  const int fault = fault_at("pread", path_of(fd));
  if (fault > 0) return failed<ssize_t>(fault);
  return next(fd, bytes, fault == k_short ? shortened(size) : size, offset);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  static const auto next = real<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  const int fault = fault_at("pwrite", path_of(fd));
  if (fault > 0) return failed<ssize_t>(fault);
  return next(fd, bytes, fault == k_short ? shortened(size) : size, offset);
}

int fsync(int fd) {
  static const auto next = real<int(int)>("fsync");
  struct stat status {};
  const bool directory = ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  if (const int fault = fault_at(directory ? "fsync_directory" : "fsync", path_of(fd))) return failed<int>(fault);
  return next(fd);
}

int flock(int fd, int operation) noexcept {
  static const auto next = real<int(int, int)>("flock");
  if (const int fault = fault_at("flock", path_of(fd))) return failed<int>(fault);
  return next(fd, operation);
}

int chmod(const char* path, mode_t mode) noexcept {
  static const auto next = real<int(const char*, mode_t)>("chmod");
  if (const int fault = fault_at("chmod", path)) return failed<int>(fault);
  return next(path, mode);
}

int chown(const char* path, uid_t owner, gid_t group) noexcept {
  static const auto next = real<int(const char*, uid_t, gid_t)>("chown");
  if (const int fault = fault_at("chown", path)) return failed<int>(fault);
  return next(path, owner, group);
}

int fchown(int fd, uid_t owner, gid_t group) noexcept {
  static const auto next = real<int(int, uid_t, gid_t)>("fchown");
  if (const int fault = fault_at("chown", path_of(fd))) return failed<int>(fault);
  return next(fd, owner, group);
}

int link(const char* from, const char* to) noexcept {
  static const auto next = real<int(const char*, const char*)>("link");
  if (const int fault = fault_at("link", to)) return failed<int>(fault);
  return next(from, to);
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  static const auto next = real<int(int, const char*, int, const char*, int)>("linkat");
  if (const int fault = fault_at("link", to)) return failed<int>(fault);
  return next(from_directory, from, to_directory, to, flags);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  static const auto next = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  if (const int fault = fault_at("renameat2", to)) return failed<int>(fault);
  return next(from_directory, from, to_directory, to, flags);
}

int unlinkat(int directory, const char* name, int flags) noexcept {
  static const auto next = real<int(int, const char*, int)>("unlinkat");
  if (const int fault = fault_at("unlinkat", path_of(directory) + "/" + name)) return failed<int>(fault);
  return next(directory, name, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  static const auto next = real<int(int, int, off_t, off_t)>("fallocate");
  if (const int fault = fault_at("fallocate", path_of(fd))) return failed<int>(fault);
  return next(fd, mode, offset, size);
}

ssize_t copy_file_range(int from, off64_t* from_offset, int to, off64_t* to_offset, size_t size, unsigned flags) {
  static const auto next = real<ssize_t(int, off64_t*, int, off64_t*, size_t, unsigned)>("copy_file_range");
  const int fault = fault_at("copy_file_range", path_of(to));
  if (fault > 0) return failed<ssize_t>(fault);
  if (fault == k_zero) return 0;
  return next(from, from_offset, to, to_offset, fault == k_short ? shortened(size) : size, flags);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  static const auto next = real<int(int, unsigned long, ...)>("ioctl");
  va_list more;
  va_start(more, request);
  void* argument = va_arg(more, void*);
  va_end(more);
  const int fault = fault_at("ioctl", path_of(fd));
  if (fault > 0) return failed<int>(fault);
  if (fault == k_zero) return 0;
  return next(fd, request, argument);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  static const auto next = real<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  static std::atomic<int> begun = 0;
  const char* most = std::getenv("FAULT_THREADS");
  if (most != nullptr && begun++ >= std::atoi(most)) {
    const char* refused = std::getenv("FAULT_REFUSED");
    if (std::FILE* file = refused == nullptr ? nullptr : std::fopen(refused, "w")) std::fclose(file);
    return EAGAIN;
  }
  return next(thread, attributes, start, argument);
}

int statvfs(const char* path, struct statvfs* status) noexcept {
  static const auto next = real<int(const char*, struct statvfs*)>("statvfs");
  const int fault = fault_at("statvfs", path);
  if (fault > 0) return failed<int>(fault);
  const int result = next(path, status);
  if (fault == k_zero) std::memset(status, 0, sizeof *status);
  return result;
}

}  // extern "C"
