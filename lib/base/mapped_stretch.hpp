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
  /// All that the process has at a time: what is mapped counts as its memory.
  static constexpr std::size_t k_most_bytes = std::size_t{512} << 20;
  /// How many it has where files lie in single pages, as in tmpfs, and in ext4 of older kernels. To bring and to take
  /// back so many is work on what all threads share: from some number of stretches on each one more makes the others
  /// wait for longer than read(2) takes to copy. (Xeon of 16 cores, 2 GiB, with 8 and with 64 at a time, ms: verify 70
  /// and 103 in tmpfs, diff 202 and 221; but where ext4 had larger pieces 51 and 43, 155 and 126.)
  static constexpr unsigned k_most_in_pages = 8;

  /// Whether they do, as far as faults tell since the process began.
  static bool files_lie_in_pages();

  /// How many bytes one should have that is mapped now: the fewer, the more there are.
  static std::size_t share_bytes();

  /// Of the file under `fd`, which stays open as long. Nothing unless allow() was called, there is room for it, and the
  /// file system can map it. That alone costs next to nothing; what was brought costs on the way back, too, above all
  /// where other threads have to be told.
  static std::optional<MappedStretch> of(int fd, std::uint64_t offset, std::size_t size_bytes);
  MappedStretch(MappedStretch&& other) noexcept : mapping_(std::exchange(other.mapping_, {})) {}
  MappedStretch& operator=(MappedStretch&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    return *this;
  }
  ~MappedStretch();

  std::size_t size_bytes() const { return mapping_.size_bytes; }
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
  struct Mapping {
    void* pages = nullptr;       // from the begin of a page on
    std::size_t skipped = 0;     // of the first page
    std::size_t size_bytes = 0;  // behind these
    int fd = -1;
    std::uint64_t offset = 0;
  };
  explicit MappedStretch(const Mapping& mapping) : mapping_(mapping) {}
  bool call(void (*work)(void* held, const std::uint8_t* bytes), void* held, std::size_t at) const noexcept;

  Mapping mapping_;
};

}  // namespace wdelta
