// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/emulated_memory.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace wdelta::testing {
namespace {

constexpr std::size_t k_page_bytes = 4096;
constexpr std::size_t k_alignment_bytes = 256;
constexpr std::size_t k_most_freed = 1024;
// What nobody has written yet, as far as this: larger pieces would take real memory for it.
constexpr std::uint8_t k_fresh = 0xcd;
constexpr std::size_t k_most_fresh_bytes = std::size_t{4} << 20;
constexpr std::uint8_t k_outside = 0x5c;

std::size_t rounded(std::size_t size_bytes, std::size_t to) { return (size_bytes + to - 1) / to * to; }

}  // namespace

EmulatedMemories::~EmulatedMemories() {
  for (const auto& [begin, piece] : pieces_) munmap(piece.mapping.begin, piece.mapping.size_bytes);
  for (const Mapping& mapping : freed_) munmap(mapping.begin, mapping.size_bytes);
}

void* EmulatedMemories::allocate(std::size_t size_bytes, Kind kind) {
  if (kind == Kind::device && size_bytes > capacity_bytes_ - device_bytes_) {
    throw Error(Fault::local, "emulated device", std::to_string(size_bytes) + " bytes of device memory: out of memory",
                "take less");
  }
  const std::size_t whole_bytes = std::max(rounded(size_bytes, k_alignment_bytes), k_alignment_bytes);
  const std::size_t open_bytes = rounded(whole_bytes, k_page_bytes);
  const std::size_t mapped_bytes = open_bytes + 2 * k_page_bytes;
  void* const mapping = mmap(nullptr, mapped_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  auto* const mapped = static_cast<std::uint8_t*>(mapping);
  std::uint8_t* const open = mapped + k_page_bytes;
  if (mprotect(open, open_bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  std::uint8_t* const begin = open + open_bytes - whole_bytes;
  std::memset(open, k_outside, static_cast<std::size_t>(begin - open));
  std::memset(begin, k_fresh, std::min(size_bytes, k_most_fresh_bytes));
  std::memset(begin + size_bytes, k_outside, whole_bytes - size_bytes);
  if (kind == Kind::device) {
    if (mprotect(open, open_bytes, PROT_NONE) != 0) throw std::bad_alloc();
    device_bytes_ += size_bytes;
    most_device_bytes_ = std::max(most_device_bytes_, device_bytes_);
  }
  pieces_[begin] = {{mapped, mapped_bytes}, size_bytes, kind};
  return begin;
}

void EmulatedMemories::release(void* begin) {
  const auto at = pieces_.find(static_cast<std::uint8_t*>(begin));
  const Piece piece = at->second;
  pieces_.erase(at);
  if (piece.kind == Kind::device) device_bytes_ -= piece.size_bytes;
  // Forbidden, and its contents given back; the addresses are given away again only much later.
  mprotect(piece.mapping.begin, piece.mapping.size_bytes, PROT_NONE);
  madvise(piece.mapping.begin, piece.mapping.size_bytes, MADV_DONTNEED);
  freed_.push_back(piece.mapping);
  if (freed_.size() <= k_most_freed) return;
  munmap(freed_.front().begin, freed_.front().size_bytes);
  freed_.pop_front();
}

bool EmulatedMemories::holds(const void* begin, std::size_t size_bytes) const {
  const auto* const first = static_cast<const std::uint8_t*>(begin);
  auto at = pieces_.upper_bound(first);
  if (at == pieces_.begin()) return false;
  --at;
  const auto offset = static_cast<std::size_t>(first - at->first);
  return at->second.kind == Kind::device && offset <= at->second.size_bytes &&
         size_bytes <= at->second.size_bytes - offset;
}

void EmulatedMemories::protect(int protection) const {
  for (const auto& [begin, piece] : pieces_) {
    if (piece.kind != Kind::device) continue;
    mprotect(piece.mapping.begin + k_page_bytes, piece.mapping.size_bytes - 2 * k_page_bytes, protection);
  }
}

EmulatedMemories::Work::Work(EmulatedMemories& of) : of_(of) { of_.protect(PROT_READ | PROT_WRITE); }
EmulatedMemories::Work::~Work() { of_.protect(PROT_NONE); }

void EmulatedMemories::check() const {
  for (const auto& [begin, piece] : pieces_) {
    if (piece.kind != Kind::device) continue;
    const std::uint8_t* const open = piece.mapping.begin + k_page_bytes;
    const std::uint8_t* const end = piece.mapping.begin + piece.mapping.size_bytes - k_page_bytes;
    const auto is_untouched = [](std::uint8_t byte) { return byte == k_outside; };
    if (!std::all_of(open, begin, is_untouched)) {
      throw Error(Fault::internal, "emulated device", "something was written in front of a piece of its memory");
    }
    if (!std::all_of(begin + piece.size_bytes, end, is_untouched)) {
      throw Error(Fault::internal, "emulated device", "something was written behind a piece of its memory");
    }
  }
}

}  // namespace wdelta::testing
