// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace wdelta::testing {

/// A function with a stack of its own that can stop anywhere and go on later. Goes where it is resumed: one thread at a
/// time. Sanitizers are told.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// What the next resume() begins with; what it began before must have ended.
  void start(std::function<void()> work);
  /// Lets it run until it stops or ends.
  void resume();
  /// Called by the work: back to resume().
  void stop();
  bool has_ended() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace wdelta::testing
