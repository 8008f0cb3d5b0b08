// SPDX-License-Identifier: Apache-2.0
// A library for LD_PRELOAD that numbers the calls by which a file system changes below one directory, and ends the
// program at one of them, or makes one of them fail. The program under test knows nothing of it.
//
//   KILL_POINTS_BELOW=/absolute/path  LD_PRELOAD=kill-points.so  wdelta …
//
//   KILL_POINTS_LOG=FILE       a line for each call: number, call, path, second path (or -), errno (0: it succeeded)
//   KILL_POINTS_AT=before:N    SIGKILL instead of call N
//   KILL_POINTS_AT=after:N     SIGKILL when call N has returned
//   KILL_POINTS_AT=wait:N      before call N, makes the file KILL_POINTS_GATE.reached and waits for KILL_POINTS_GATE
//   KILL_POINTS_AT=fail:N:E    call N fails with errno E and does nothing
//   KILL_POINTS_AT=from:N:E    call N and all behind it fail so, but for those that remove: a disk that is full now
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace {

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int fd) {
  char path[4096];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

std::string path_at(int directory, const char* path) {
  if (path == nullptr || *path == '/') return path == nullptr ? "" : path;
  return path_of(directory) + "/" + path;
}

std::string absolute(const char* path) {
  if (*path == '/') return path;
  char directory[4096];
  return ::getcwd(directory, sizeof directory) == nullptr ? path : std::string(directory) + "/" + path;
}

std::string at(int directory, const char* path) {
  return directory == AT_FDCWD ? absolute(path) : path_at(directory, path);
}

bool is_below(std::string_view path) {
  const char* below = std::getenv("KILL_POINTS_BELOW");
  if (below == nullptr || !path.starts_with(below)) return false;
  const std::size_t length = std::strlen(below);
  return path.size() == length || path[length] == '/';
}

enum class Change { makes, removes };

struct Target {
  const char* call;
  Change change;
  std::string path;
  std::string other = "-";
};

struct Order {
  std::string_view what;  // empty: none
  unsigned long number = 0;
  int error = 0;

  Order() {
    const char* text = std::getenv("KILL_POINTS_AT");
    if (text == nullptr) return;
    char* end = nullptr;
    what = std::string_view(text).substr(0, std::string_view(text).find(':'));
    number = std::strtoul(text + what.size() + 1, &end, 10);
    if (*end == ':') error = std::atoi(end + 1);
  }
};

void log(unsigned long number, const Target& target, int error) {
  static const char* const path = std::getenv("KILL_POINTS_LOG");
  if (path == nullptr) return;
  static const auto open_log = real<int(const char*, int, ...)>("open");
  static const auto write_log = real<ssize_t(int, const void*, size_t)>("write");
  static const int fd = open_log(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string line = std::to_string(number) + "\t" + target.call + "\t" + target.path + "\t" + target.other +
                           "\t" + std::to_string(error) + "\n";
  if (write_log(fd, line.data(), line.size()) < 0) std::abort();
}

std::atomic<unsigned long> call_count = 0;

const Order& the_order() {
  static const Order order;
  return order;
}

void wait_at_gate() {
  const char* gate = std::getenv("KILL_POINTS_GATE");
  if (gate == nullptr) std::abort();
  static const auto next = real<int(const char*, int, ...)>("open");
  ::close(next((std::string(gate) + ".reached").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  // A test that was ended itself takes its directory away: nobody will open the gate any more.
  const std::string directory = std::string(gate).substr(0, std::string(gate).rfind('/'));
  while (::access(gate, F_OK) != 0) {
    if (::access(directory.c_str(), F_OK) != 0) ::_exit(125);
    ::usleep(1000);
  }
}

// Makes a call, or does with it what was ordered.
template <typename Call>
auto at_point(const Target& target, Call call) -> decltype(call()) {
  if (!is_below(target.path) && !is_below(target.other)) return call();
  const Order& order = the_order();
  const unsigned long number = ++call_count;
  const bool fails = (order.what == "fail" && number == order.number) ||
                     (order.what == "from" && number >= order.number && target.change == Change::makes);
  if (fails) {
    log(number, target, order.error);
    errno = order.error;
    return -1;
  }
  if (order.what == "wait" && number == order.number) wait_at_gate();
  if (order.what == "before" && number == order.number) ::raise(SIGKILL);
  const auto result = call();
  const int error = errno;
  log(number, target, result < 0 ? error : 0);
  if (order.what == "after" && number == order.number) ::raise(SIGKILL);
  errno = error;
  return result;
}

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// open(2) counts where it may create or cut.
template <typename Call>
int opened(const char* name, std::string path, int flags, Call call) {
  if (!takes_mode(flags) && (flags & O_TRUNC) == 0) return call();
  return at_point({name, Change::makes, std::move(path)}, call);
}

}  // namespace

extern "C" {

// The second name is for programs that are built for large files on a system where that makes a difference.
#define OPEN(name)                                                                         \
  int name(const char* path, int flags, ...) {                                             \
    static const auto next = real<int(const char*, int, ...)>(#name);                      \
    va_list more;                                                                          \
    va_start(more, flags);                                                                 \
    const mode_t mode = takes_mode(flags) ? va_arg(more, mode_t) : 0;                      \
    va_end(more);                                                                          \
    return opened("open", absolute(path), flags, [&] { return next(path, flags, mode); }); \
  }
#define OPENAT(name)                                                                                       \
  int name(int directory, const char* path, int flags, ...) {                                              \
    static const auto next = real<int(int, const char*, int, ...)>(#name);                                 \
    va_list more;                                                                                          \
    va_start(more, flags);                                                                                 \
    const mode_t mode = takes_mode(flags) ? va_arg(more, mode_t) : 0;                                      \
    va_end(more);                                                                                          \
    return opened("open", at(directory, path), flags, [&] { return next(directory, path, flags, mode); }); \
  }
#define CREAT(name)                                                                              \
  int name(const char* path, mode_t mode) {                                                      \
    static const auto next = real<int(const char*, mode_t)>(#name);                              \
    return at_point({"creat", Change::makes, absolute(path)}, [&] { return next(path, mode); }); \
  }
#define PWRITE(name)                                                                                        \
  ssize_t name(int fd, const void* bytes, size_t size, off_t offset) {                                      \
    static const auto next = real<ssize_t(int, const void*, size_t, off_t)>(#name);                         \
    return at_point({"pwrite", Change::makes, path_of(fd)}, [&] { return next(fd, bytes, size, offset); }); \
  }
#define FALLOCATE(name)                                                                                       \
  int name(int fd, int mode, off_t offset, off_t size) {                                                      \
    static const auto next = real<int(int, int, off_t, off_t)>(#name);                                        \
    return at_point({"fallocate", Change::makes, path_of(fd)}, [&] { return next(fd, mode, offset, size); }); \
  }
#define FTRUNCATE(name)                                                                         \
  int name(int fd, off_t size) noexcept {                                                       \
    static const auto next = real<int(int, off_t)>(#name);                                      \
    return at_point({"ftruncate", Change::makes, path_of(fd)}, [&] { return next(fd, size); }); \
  }
#define SYNC(name)                                                                  \
  int name(int fd) {                                                                \
    static const auto next = real<int(int)>(#name);                                 \
    return at_point({#name, Change::makes, path_of(fd)}, [&] { return next(fd); }); \
  }
#define REMOVE(name)                                                                       \
  int name(const char* path) noexcept {                                                    \
    static const auto next = real<int(const char*)>(#name);                                \
    return at_point({#name, Change::removes, absolute(path)}, [&] { return next(path); }); \
  }
#define TWO_PATHS(name)                                                                                    \
  int name(const char* from, const char* to) noexcept {                                                    \
    static const auto next = real<int(const char*, const char*)>(#name);                                   \
    return at_point({#name, Change::makes, absolute(from), absolute(to)}, [&] { return next(from, to); }); \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
CREAT(creat)
CREAT(creat64)
PWRITE(pwrite)
PWRITE(pwrite64)
FALLOCATE(fallocate)
FALLOCATE(fallocate64)
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)
SYNC(fsync)
SYNC(fdatasync)
REMOVE(unlink)
REMOVE(rmdir)
REMOVE(remove)  // unlink or rmdir, which libc calls without asking us
TWO_PATHS(rename)
TWO_PATHS(link)

ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto next = real<ssize_t(int, const void*, size_t)>("write");
  return at_point({"write", Change::makes, path_of(fd)}, [&] { return next(fd, bytes, size); });
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  static const auto next = real<int(int, const char*, int)>("unlinkat");
  return at_point({"unlinkat", Change::removes, at(directory, path)}, [&] { return next(directory, path, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto next = real<int(const char*, mode_t)>("mkdir");
  return at_point({"mkdir", Change::makes, absolute(path)}, [&] { return next(path, mode); });
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  static const auto next = real<int(int, const char*, mode_t)>("mkdirat");
  return at_point({"mkdirat", Change::makes, at(directory, path)}, [&] { return next(directory, path, mode); });
}

int symlink(const char* target, const char* path) noexcept {
  static const auto next = real<int(const char*, const char*)>("symlink");
  return at_point({"symlink", Change::makes, absolute(path)}, [&] { return next(target, path); });
}

int symlinkat(const char* target, int directory, const char* path) noexcept {
  static const auto next = real<int(const char*, int, const char*)>("symlinkat");
  return at_point({"symlinkat", Change::makes, at(directory, path)}, [&] { return next(target, directory, path); });
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  static const auto next = real<int(int, const char*, int, const char*, int)>("linkat");
  return at_point({"linkat", Change::makes, at(from_directory, from), at(to_directory, to)},
                  [&] { return next(from_directory, from, to_directory, to, flags); });
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  static const auto next = real<int(int, const char*, int, const char*)>("renameat");
  return at_point({"renameat", Change::makes, at(from_directory, from), at(to_directory, to)},
                  [&] { return next(from_directory, from, to_directory, to); });
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  static const auto next = real<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return at_point({"renameat2", Change::makes, at(from_directory, from), at(to_directory, to)},
                  [&] { return next(from_directory, from, to_directory, to, flags); });
}

}  // extern "C"
