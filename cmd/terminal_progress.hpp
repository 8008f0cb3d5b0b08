// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace wdelta::cmd {

enum class Notes { shown, hidden };
enum class Bar { shown, hidden };

/// Draws progress on stderr: label, share, bytes, rate and time left, at most ten times a second, and wipes itself
/// away.
class TerminalProgress final : public Progress {
 public:
  TerminalProgress(std::string command, Bar bar, Notes notes)
      : command_(std::move(command)), bar_(bar), notes_(notes) {}
  ~TerminalProgress() override { wipe(); }

  void begin(std::string_view label, std::uint64_t total_bytes) override;
  void advance(std::uint64_t bytes) override;
  void note(std::string_view text) override;
  /// Takes the line off the screen, before something else is printed.
  void wipe();

 private:
  using Clock = std::chrono::steady_clock;
  void draw(Clock::time_point now);

  std::string command_;
  Bar bar_;
  Notes notes_;
  std::mutex mutex_;
  std::string label_;
  std::uint64_t total_bytes_ = 0;
  std::atomic<std::uint64_t> done_bytes_ = 0;
  Clock::time_point begun_;
  Clock::time_point drawn_;
  bool on_screen_ = false;
};

}  // namespace wdelta::cmd
