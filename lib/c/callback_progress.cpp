// SPDX-License-Identifier: Apache-2.0
#include "c/callback_progress.hpp"

namespace wdelta {

void CallbackProgress::tell() {
  if (callbacks_.progress == nullptr) return;
  if (callbacks_.progress(callbacks_.context, label_.c_str(), done_bytes_, total_bytes_) != 0) stop_.request_stop();
}

void CallbackProgress::begin(std::string_view label, std::uint64_t total_bytes) {
  const std::lock_guard lock(mutex_);
  label_ = label;
  total_bytes_ = total_bytes;
  done_bytes_ = 0;
  tell();
}

void CallbackProgress::advance(std::uint64_t bytes) {
  constexpr Clock::duration k_pause = std::chrono::milliseconds(100);
  done_bytes_ += bytes;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep next = next_time_;
  if (now < next || !next_time_.compare_exchange_strong(next, now + k_pause.count())) return;
  const std::lock_guard lock(mutex_);
  tell();
}

void CallbackProgress::note(std::string_view text) {
  if (callbacks_.note == nullptr) return;
  const std::lock_guard lock(mutex_);
  callbacks_.note(callbacks_.context, std::string(text).c_str());
}

}  // namespace wdelta
