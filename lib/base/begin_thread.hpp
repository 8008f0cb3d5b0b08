// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace wdelta {

/// Begins a thread that does `work`, which is joined when it leaves `threads`. Returns false, and begins none, where
/// the system has no more, as a container with a limit on processes: whoever asks goes on with those that are there.
inline bool begin_thread(std::vector<std::jthread>& threads, std::function<void()> work) {
  try {
    threads.emplace_back(std::move(work));
    return true;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) throw;
    return false;
  }
}

/// So many threads, or as many as the system has.
inline void begin_threads(std::vector<std::jthread>& threads, std::size_t most, const std::function<void()>& work) {
  for (std::size_t i = 0; i < most; ++i) {
    if (!begin_thread(threads, work)) return;
  }
}

/// Begins `work` on a thread of its own or, where the system has no more, has it done by whoever waits for it. Of what
/// did not come to a thread nothing is done where nobody waits.
template <typename Work>
std::future<void> begin_aside(Work work) {
  // libstdc++ has moved from what it was given when it finds that there is no thread for it (std::async, GCC 12).
  const auto kept = [shared = std::make_shared<Work>(std::move(work))] { (*shared)(); };
  return std::async(std::launch::async | std::launch::deferred, kept);
}

}  // namespace wdelta
