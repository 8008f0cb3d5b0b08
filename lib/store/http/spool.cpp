// SPDX-License-Identifier: Apache-2.0
#include "store/http/spool.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// What is written down of a page: its number, little-endian, and its value in the tree.
constexpr std::size_t k_journal_record_bytes = 8 + 32;
using Record = std::array<std::uint8_t, k_journal_record_bytes>;

Record record_of(std::uint64_t page, const Digest& value) {
  Record record{};
  for (unsigned i = 0; i < 8; ++i) record[i] = static_cast<std::uint8_t>(page >> (8 * i));
  std::ranges::copy(value.bytes, record.begin() + 8);
  return record;
}

std::uint64_t page_of(const Record& record) {
  std::uint64_t page = 0;
  for (unsigned i = 0; i < 8; ++i) page |= std::uint64_t{record[i]} << (8 * i);
  return page;
}

Error cannot(const fs::path& path, const char* what) {
  Error error = system_error(errno, path.string(), what);
  return {Fault::local, error.object(), error.what(), "WDELTA_CACHE_DIR names another place for what is on its way"};
}

constexpr int k_private_mode = 0600;

}  // namespace

Spool::Spool(const fs::path& directory, std::string_view identity, std::uint64_t size_bytes)
    : size_bytes_(size_bytes), tree_(size_bytes, {k_page_bytes}) {
  make_directories(directory);
  if (!identity.empty() && open_named(directory, identity)) {
    read_found_pages();
    return;
  }
  path_.clear();
  pages_ = Fd();
  std::string name = directory / "spool-XXXXXX";
  bytes_ = Fd(::mkostemp(name.data(), O_CLOEXEC));
  if (!bytes_) throw cannot(name, "create");
  ::unlink(name.c_str());
}

bool Spool::move_into(OutputFile& output) {
  if (path_.empty() || !output.adopt(bytes_, path_)) return false;
  ::unlink((path_.string() + ".pages").c_str());
  return true;
}

void Spool::forget() {
  if (path_.empty()) return;
  // The record first: pages without one are not believed.
  ::unlink((path_.string() + ".pages").c_str());
  ::unlink(path_.c_str());
}

// False when another program is at work with it.
bool Spool::open_named(const fs::path& directory, std::string_view identity) {
  // Programs that were killed and never run again would leave theirs for ever.
  constexpr std::int64_t k_kept_s = 7 * 86400;
  remove_older(directory, k_kept_s);
  const std::string name = std::string(identity) + "\n" + std::to_string(size_bytes_);
  const Digest digest = blake3(name);
  path_ = directory / ("spool-" + digest.hex());
  bytes_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, k_private_mode));
  if (!bytes_) throw cannot(path_, "create");
  if (::flock(bytes_.get(), LOCK_EX | LOCK_NB) != 0) return false;
  const std::string pages = path_.string() + ".pages";
  pages_ = Fd(::open(pages.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, k_private_mode));
  if (!pages_) throw cannot(pages, "create");
  // Another program may have ended, and taken the name away, between the opening and the lock.
  struct stat opened {};
  struct stat named {};
  return ::fstat(bytes_.get(), &opened) == 0 && ::stat(path_.c_str(), &named) == 0 && opened.st_ino == named.st_ino;
}

void Spool::read_found_pages() {
  std::vector<std::uint8_t> bytes(k_page_bytes);
  Record record;
  for (off_t at = 0; ::pread(pages_.get(), record.data(), record.size(), at) == static_cast<ssize_t>(record.size());
       at += static_cast<off_t>(record.size())) {
    const std::uint64_t page = page_of(record);
    if (page >= (size_bytes_ + k_page_bytes - 1) / k_page_bytes) continue;
    const std::uint64_t begin = page * k_page_bytes;
    const auto there = std::span(bytes).first(std::min<std::uint64_t>(k_page_bytes, size_bytes_ - begin));
    const ssize_t got = ::pread(bytes_.get(), there.data(), there.size(), static_cast<off_t>(begin));
    if (got != static_cast<ssize_t>(there.size())) continue;
    tree_.set_segment(page, there);
    if (record_of(page, tree_.segment_value(page)) == record) found_pages_.push_back(page);
  }
}

void Spool::write_page(std::uint64_t page, std::span<const std::uint8_t> bytes) {
  tree_.set_segment(page, bytes);
  off_t offset = static_cast<off_t>(page * k_page_bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(bytes_.get(), bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw cannot(path_.empty() ? "spool" : path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
  if (!pages_) return;
  const Record record = record_of(page, tree_.segment_value(page));
  const std::lock_guard lock(mutex_);
  // A record cut short would shift all behind it; on a full disk the pages are still good for this program.
  if (::write(pages_.get(), record.data(), record.size()) != static_cast<ssize_t>(record.size())) pages_ = Fd();
}

void Spool::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(bytes_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot(path_.empty() ? "spool" : path_, "read");
    if (got == 0) throw Error(Fault::local, path_.string(), "was cut short by another program");
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void Spool::remove_older(const fs::path& directory, std::int64_t age_s) noexcept try {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("spool-")) continue;
    const Fd file(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0 || status.st_mtime + age_s > std::time(nullptr)) continue;
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) ::unlink(entry.path().c_str());
  }
} catch (...) {
  // At worst something is left.
}

}  // namespace wdelta
