// SPDX-License-Identifier: Apache-2.0
#include "base/mapped_stretch.hpp"

#include "base/buffer.hpp"
#include "base/system_call.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/vfs.h>

namespace wdelta {

namespace {

std::atomic<bool> allowed = false;

std::atomic<unsigned> all_stretches = 0;
std::atomic<std::size_t> all_bytes = 0;

void give_back(std::size_t size_bytes) {
  --all_stretches;
  all_bytes -= size_bytes;
}

bool is_in_memory(int fd) {
  struct statfs system {};
  return ::fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

// A fault brings all pages of the cache that lie in the same so many bytes of the address space, with Linux's settings
// (fault_around_bytes in mm/memory.c). One read in each is less work than MADV_POPULATE_READ, which looks at every page
// once more. (Zen 4, for each GiB: 42 ms and 67 where the cache is made of small pages, 4 and 5 where of large ones;
// diff of 2 GiB, seconds of processor time: 1.27 and 1.39, 1.17 and 1.27.)
constexpr std::size_t k_fault_around_bytes = std::size_t{64} << 10;

// Of this thread, so far.
std::size_t faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::size_t>(usage.ru_minflt);
}

// Of the process, since it began: how many faults brought pages, and how many stretches of k_fault_around_bytes were
// looked at. Larger pieces of the cache come by fewer.
std::atomic<std::size_t> all_faults = 0, all_looks = 0;

// Whether it can be read without waiting for a disk, as one byte of each MiB and the last say. A mapping that has
// to be read from a disk is slower than read(2), which reads ahead.
bool is_cached(int fd, std::uint64_t offset, std::size_t size_bytes) {
  constexpr std::size_t k_probe_each = std::size_t{1} << 20;
  for (std::size_t at = 0; at < size_bytes; at += k_probe_each) {
    const std::size_t last = std::min(at + k_probe_each, size_bytes) - 1;
    char byte;
    const iovec to = {&byte, 1};
    const auto place = static_cast<off_t>(offset + last);
    const ssize_t got = uninterrupted([&] { return ::preadv2(fd, &to, 1, place, RWF_NOWAIT); });
    if (got != 1) return got < 0 && errno == EOPNOTSUPP && is_in_memory(fd);
  }
  return true;
}

// Whether what leads back from the handler restores the signals that are blocked. None are, and to ask for them would
// be a system call for each read(); but ThreadSanitizer blocks them all while a handler is called.
#if defined(__SANITIZE_THREAD__)
constexpr int k_saves_signals = 1;
#else
constexpr int k_saves_signals = 0;
#endif

// What a thread is reading.
struct Guarded {
  sigjmp_buf before;
  const std::uint8_t *begin, *end;
};

thread_local Guarded* volatile guarded = nullptr;

// Goes back to the read() of this thread that met the address.
void leave_guarded(int number, siginfo_t* info, void*) {
  Guarded* const here = guarded;
  const auto* const met = static_cast<const std::uint8_t*>(info->si_addr);
  if (here != nullptr && met >= here->begin && met < here->end) siglongjmp(here->before, 1);
  ::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

void MappedStretch::allow() {
  struct sigaction action {};
  // Not blocked while it is handled: then there is no signal mask to be put back, a system call for each read().
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  action.sa_sigaction = leave_guarded;
  ::sigaction(SIGBUS, &action, nullptr);
  allowed = true;
}

bool MappedStretch::files_lie_in_pages() { return 4 * all_faults > 3 * all_looks; }

// So n stretches that come and go have 1/(n + 7) of all each, and those that come later find room, too.
std::size_t MappedStretch::share_bytes() { return (k_most_bytes - std::min<std::size_t>(all_bytes, k_most_bytes)) / 8; }

std::optional<MappedStretch> MappedStretch::of(int fd, std::uint64_t offset, std::size_t size_bytes) {
  if (!allowed || size_bytes == 0) return std::nullopt;
  const bool may_be = all_stretches.fetch_add(1) < k_most_in_pages || !files_lie_in_pages();
  const bool has_room = all_bytes.fetch_add(size_bytes) + size_bytes <= k_most_bytes;
  const std::size_t skipped = offset % k_memory_page_bytes;
  void* pages = MAP_FAILED;
  if (may_be && has_room) {
    pages = ::mmap(nullptr, skipped + size_bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset - skipped));
  }
  if (pages == MAP_FAILED) {
    give_back(size_bytes);
    return std::nullopt;
  }
  return MappedStretch({pages, skipped, size_bytes, fd, offset});
}

bool MappedStretch::bring(std::size_t at, std::size_t size_bytes) const {
  if (!is_cached(mapping_.fd, mapping_.offset + at, size_bytes)) return false;
  const std::size_t faults_before = faults();
  const bool is_there = read(at, [&](const std::uint8_t* bytes) {
    const std::uint8_t* const end = bytes + size_bytes;
    while (bytes < end) {
      static_cast<void>(*static_cast<const volatile std::uint8_t*>(bytes));
      bytes += k_fault_around_bytes - reinterpret_cast<std::uintptr_t>(bytes) % k_fault_around_bytes;
    }
  });
  all_faults += faults() - faults_before;
  all_looks += (size_bytes + k_fault_around_bytes - 1) / k_fault_around_bytes;
  return is_there;
}

MappedStretch::~MappedStretch() {
  if (mapping_.pages == nullptr) return;
  ::munmap(mapping_.pages, mapping_.skipped + mapping_.size_bytes);
  give_back(mapping_.size_bytes);
}

bool MappedStretch::call(void (*work)(void* held, const std::uint8_t* bytes), void* held,
                         std::size_t at) const noexcept {
  const std::uint8_t* const begin = static_cast<const std::uint8_t*>(mapping_.pages) + mapping_.skipped;
  Guarded here;
  here.begin = begin;
  here.end = begin + mapping_.size_bytes;
  if (sigsetjmp(here.before, k_saves_signals) != 0) {
    guarded = nullptr;
    return false;
  }
  guarded = &here;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  work(held, begin + at);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guarded = nullptr;
  return true;
}

}  // namespace wdelta
