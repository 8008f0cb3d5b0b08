// SPDX-License-Identifier: Apache-2.0
#include "base/space.hpp"

#include "base/error.hpp"

#include <fmt/format.h>
#include <limits>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

std::string grouped(std::uint64_t number) {
  const std::string digits = std::to_string(number);
  std::string result;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
    result += digits[i];
  }
  return result;
}

fs::path nearest_existing(const fs::path& path) {
  std::error_code ignored;
  fs::path nearest = fs::absolute(path, ignored);
  while (nearest.has_relative_path() && !fs::exists(nearest, ignored)) nearest = nearest.parent_path();
  return nearest;
}

}  // namespace

std::optional<std::uint64_t> free_bytes_at(const fs::path& path) {
  struct statvfs status {};
  if (::statvfs(nearest_existing(path).c_str(), &status) != 0) return std::nullopt;
  // Some network and FUSE file systems know no sizes and say 0; a tmpfs without a limit does too.
  if (status.f_blocks == 0 || status.f_frsize == 0) return std::nullopt;
  const std::uint64_t blocks = ::geteuid() == 0 ? status.f_bfree : status.f_bavail;
  if (blocks > status.f_blocks || blocks > std::numeric_limits<std::uint64_t>::max() / status.f_frsize) {
    return std::nullopt;
  }
  return blocks * status.f_frsize;
}

std::uint64_t taken_bytes_in(const fs::path& directory) {
  constexpr std::uint64_t k_block = 512;  // of st_blocks, whatever the file system's
  std::uint64_t total = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      total += static_cast<std::uint64_t>(status.st_blocks) * k_block;
  }
  return total;
}

bool are_on_one_file_system(const fs::path& one, const fs::path& other) {
  struct stat status {};
  struct stat others {};
  return ::stat(nearest_existing(one).c_str(), &status) == 0 && ::stat(nearest_existing(other).c_str(), &others) == 0 &&
         status.st_dev == others.st_dev;
}

void require_space(const std::string& object, const Space& space) {
  if (!space.free_bytes || space.needed_bytes <= *space.free_bytes) return;
  throw Error(Fault::local, object,
              fmt::format("needs {} bytes, {} are free: {} are missing", grouped(space.needed_bytes),
                          grouped(*space.free_bytes), grouped(space.needed_bytes - *space.free_bytes)),
              "free some space; nothing was begun");
}

void require_space_at(const fs::path& path, std::uint64_t needed_bytes) {
  require_space(path.string(), {needed_bytes, free_bytes_at(path)});
}

}  // namespace wdelta
