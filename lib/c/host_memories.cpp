// SPDX-License-Identifier: Apache-2.0
#include "c/host_memories.hpp"

#include "c/stretches.hpp"

#include <new>
#include <sys/mman.h>
#include <utility>

namespace wdelta {

HostMemory::HostMemory(std::size_t size_bytes) {
  if (size_bytes > 0) bytes_ = memory_.of_size(size_bytes);
  // Else filling it for the first time costs a page fault for every 4 KiB. It is advice: nothing depends on it.
  if (size_bytes >= k_stretch_bytes) ::madvise(bytes_.data(), bytes_.size(), MADV_HUGEPAGE);
}

bool HostMemory::is_pinned_for(Device& device, const Execution& execution) {
  if (bytes_.size() < k_stretch_bytes) return false;
  if (std::exchange(asked_for_, &device) == &device) return static_cast<bool>(pin_);
  pin_ = {};
  // Its pages are made here by all threads; a driver makes them one after the other.
  for_each_stretch(bytes_.size(), execution, [&] {
    return [&](std::size_t begin, std::size_t size) {
      for (std::size_t at = begin; at < begin + size; at += k_memory_page_bytes) bytes_[at] = 0;
    };
  });
  pin_ = device.pins().pin(bytes_);
  return static_cast<bool>(pin_);
}

std::unique_ptr<HostMemory> HostMemories::take(std::size_t size_bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fit = spares_.lower_bound(size_bytes);
    if (fit != spares_.end() && fit->first == size_bytes) return std::move(spares_.extract(fit).mapped().memory);
  }
  try {
    return std::make_unique<HostMemory>(size_bytes);
  } catch (const std::bad_alloc&) {
    free_all();
    return std::make_unique<HostMemory>(size_bytes);
  }
}

void HostMemories::give_back(std::unique_ptr<HostMemory> memory) noexcept try {
  const std::lock_guard lock(mutex_);
  const std::size_t size_bytes = memory->bytes().size();
  spares_.emplace(size_bytes, Spare{std::move(memory)});
} catch (const std::bad_alloc&) {
}

void HostMemories::free_unused() {
  Spares unused;
  const std::lock_guard lock(mutex_);
  for (auto spare = spares_.begin(); spare != spares_.end();) {
    const auto at = spare++;
    if (std::exchange(at->second.is_old, true)) unused.insert(spares_.extract(at));
  }
}

void HostMemories::free_all() {
  Spares all;
  const std::lock_guard lock(mutex_);
  all.swap(spares_);
}

}  // namespace wdelta
