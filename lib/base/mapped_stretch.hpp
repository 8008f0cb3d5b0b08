// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace wdelta {

/// A stretch of a file where the page cache has it, so that a pass over it needs no copy made by read(2) before.
///
/// Another process may write to these bytes at any time: who reads a byte twice may find two. And it may cut the file
/// off, upon which reading raises SIGBUS, or, in the page in which the file ends now, finds zeros. Hence stretches are
/// only for programs that have called allow().
class MappedStretch {
 public:
  /// How many the process has at most. Bringing pages and taking them back is work on what all threads share: from some
  /// number on each one more makes the others wait for longer than read(2) takes to copy. (By a program that brought
  /// pages by MADV_POPULATE_READ, Xeon of 16 cores, verify of 2 GiB with 16 threads: in tmpfs 66 ms for 135 without a
  /// limit, in ext4 46 for 58; diff with 8 threads, which would map 16, 232 for 237, and in ext4 216 for 197.)
  static constexpr unsigned k_most = 8;

  /// Of the file under `fd`, which stays open as long. Nothing unless allow() was called, fewer than k_most are there,
  /// and the file system can map it. That alone costs next to nothing; what was brought costs on the way back, too,
  /// above all where other threads have to be told.
  static std::optional<MappedStretch> of(int fd, std::uint64_t offset, std::size_t size_bytes);
  MappedStretch(MappedStretch&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)),
        skipped_(other.skipped_),
        size_bytes_(other.size_bytes_),
        fd_(other.fd_),
        offset_(other.offset_) {}
  MappedStretch& operator=(MappedStretch&& other) noexcept {
    std::swap(pages_, other.pages_);
    std::swap(skipped_, other.skipped_);
    std::swap(size_bytes_, other.size_bytes_);
    std::swap(fd_, other.fd_);
    std::swap(offset_, other.offset_);
    return *this;
  }
  ~MappedStretch();

  std::size_t size_bytes() const { return size_bytes_; }
  /// Brings `size_bytes` from `at` on to where reading and prefetching them does not fault, if all of them, as far as a
  /// few probes tell, are in the page cache. What has not been brought is not to be read.
  bool bring(std::size_t at, std::size_t size_bytes) const;

  /// Calls work(bytes), where these are those from `at` bytes behind the begin of the stretch on. Returns false when
  /// some that it read are there no more, or cannot be read from the disk: then it was left where it met them, by
  /// siglongjmp(3), so nothing in it may need a destructor, and it may not throw. read(2) says why.
  template <typename Work>
  bool read(std::size_t at, Work work) const noexcept {
    return call([](void* held, const std::uint8_t* bytes) { (*static_cast<Work*>(held))(bytes); }, &work, at);
  }

  /// For a program to call, never for a library in somebody else's: installs a handler of SIGBUS, which ends the
  /// process as before where no read() met it.
  static void allow();

 private:
  MappedStretch(void* pages, std::size_t skipped, std::size_t size_bytes, int fd, std::uint64_t offset)
      : pages_(pages), skipped_(skipped), size_bytes_(size_bytes), fd_(fd), offset_(offset) {}
  bool call(void (*work)(void* held, const std::uint8_t* bytes), void* held, std::size_t at) const noexcept;

  void* pages_;             // from the begin of a page on
  std::size_t skipped_;     // of the first page
  std::size_t size_bytes_;  // behind these
  int fd_;
  std::uint64_t offset_;
};

}  // namespace wdelta
