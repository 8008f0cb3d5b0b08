// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/stage_clock.hpp"

#include <cstdint>
#include <stop_token>
#include <string_view>

namespace wdelta {

/// Told how work goes on. The library never prints; whoever implements this may. Safe to call from several threads.
class Progress {
 public:
  virtual ~Progress() = default;
  /// A stretch of work of `total_bytes` begins; it ends when the next one begins.
  virtual void begin(std::string_view label, std::uint64_t total_bytes) = 0;
  virtual void advance(std::uint64_t bytes) = 0;
  /// Something the user should know that is no error.
  virtual void note(std::string_view text) = 0;
};

/// For work that nobody watches.
class NoProgress final : public Progress {
 public:
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t) override {}
  void note(std::string_view) override {}
};

/// What long work needs from its caller. Must outlive the call it is given to.
struct Execution {
  unsigned threads = 1;
  Progress* progress = nullptr;  ///< never null once inside the library
  std::stop_token stop;
  StageClock* stages = nullptr;  ///< null: nobody asks where the time goes
  /// More threads, that begin once one of the others is seen to wait, for a disk most likely: where none does, they
  /// would only push what others work on out of the caches.
  unsigned spare_threads = 0;

  /// The same on so many threads, and no spare ones.
  Execution on(unsigned exactly) const {
    Execution other = *this;
    other.threads = exactly;
    other.spare_threads = 0;
    return other;
  }
  /// Throws interrupted once a stop was asked for.
  void check_stop() const;
};

/// What an Execution has as threads and spare_threads.
struct ThreadCounts {
  unsigned all_along = 1;
  unsigned spare = 0;
};
/// For those who do not choose: one for each core that the caller may use (usable_cores), and a spare one.
ThreadCounts default_threads();

}  // namespace wdelta
