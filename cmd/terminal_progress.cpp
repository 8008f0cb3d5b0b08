// SPDX-License-Identifier: Apache-2.0
#include "terminal_progress.hpp"

#include "base/printable.hpp"
#include "format.hpp"
#include "say.hpp"

#include <fmt/format.h>

namespace wdelta::cmd {

void TerminalProgress::begin(std::string_view label, std::uint64_t total_bytes) {
  const std::lock_guard lock(mutex_);
  label_ = label;
  total_bytes_ = total_bytes;
  done_bytes_ = 0;
  begun_ = drawn_ = Clock::now();
}

void TerminalProgress::advance(std::uint64_t bytes) {
  done_bytes_ += bytes;
  if (bar_ == Bar::hidden) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);  // another thread is drawing: it draws this too
  const auto now = Clock::now();
  const bool has_begun = lock && !label_.empty();
  if (has_begun && now - drawn_ > std::chrono::milliseconds(100)) draw(now);
}

void TerminalProgress::draw(Clock::time_point now) {
  const std::uint64_t done = done_bytes_;
  const double seconds = std::chrono::duration<double>(now - begun_).count();
  const double rate = static_cast<double>(done) / seconds;
  std::string line = fmt::format("{}: {}", command_, label_);
  if (total_bytes_ > done) {
    const double left = static_cast<double>(total_bytes_ - done) / rate;
    line += fmt::format("  {:3.0f} %  {} of {}", 100.0 * static_cast<double>(done) / static_cast<double>(total_bytes_),
                        size_text(done), size_text(total_bytes_));
    line += fmt::format("  {}/s", size_text(static_cast<std::uint64_t>(rate)));
    // Nobody knows how long it takes while nothing has moved.
    constexpr double k_longest_s = 1e6;
    if (left < k_longest_s)
      line += fmt::format("  {}:{:02} left", static_cast<int>(left) / 60, static_cast<int>(left) % 60);
  } else {
    line += fmt::format("  {}  {}/s", size_text(done), size_text(static_cast<std::uint64_t>(rate)));
  }
  say("\r\033[K{}", line);
  drawn_ = now;
  on_screen_ = true;
}

void TerminalProgress::note(std::string_view text) {
  if (notes_ == Notes::hidden) return;
  wipe();
  say("wdelta: {}: note: {}\n", command_, printable(std::string(text)));
}

void TerminalProgress::wipe() {
  const std::lock_guard lock(mutex_);
  if (on_screen_) say("\r\033[K");
  on_screen_ = false;
}

}  // namespace wdelta::cmd
