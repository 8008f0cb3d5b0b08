// SPDX-License-Identifier: Apache-2.0
// What a wdelta_repository stands for.
#pragma once

#include "base/execution.hpp"
#include "c/callback_progress.hpp"
#include "c/host_memories.hpp"
#include "c/push_queue.hpp"
#include "c/reference_copy.hpp"
#include "engine/device_memories.hpp"
#include "engine/engine.hpp"
#include "include/wdelta.h"
#include "repo/repository.hpp"
#include "store/access.hpp"
#include "user/environment.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

namespace wdelta {

/// Whom one handle reports to, and what stops it.
struct Watched {
  explicit Watched(const wdelta_callbacks& callbacks) : progress(callbacks, stop) {}

  Execution execution(const ThreadCounts& threads) {
    return {threads.all_along, &progress, stop.get_token(), nullptr, threads.spare};
  }

  std::stop_source stop;
  CallbackProgress progress;
};

/// Shared by a wdelta_repository and by what was begun with it. Each push, each commit and each revision that
/// is looked up opens the repository anew, at the price of one request, so that what stops one of them stops no other.
class OpenRepository {
 public:
  OpenRepository(const char* location, const wdelta_repository_options& options);

  Repository reopen(const Execution& execution) const { return Repository::open(location_, access_, execution); }
  Digest resolve(const std::string& revision) const;

  const wdelta_callbacks& callbacks() const { return callbacks_; }
  const ThreadCounts& threads() const { return threads_; }
  const Engine& engine() const { return *engine_; }
  const Environment& environment() const { return environment_; }

  /// Held while a push of this handle works. Throws interrupted when it is to stop before it has it.
  PushQueue::Turn queue_push(const Execution& execution) { return push_queue_.wait(execution); }
  /// What was pushed to a branch last; for whose turn it is.
  ReferenceCopy& reference(const std::string& branch) { return references_[branch]; }
  /// What copied tensors lie in that become a reference on the host.
  const std::shared_ptr<HostMemories>& host_memories() const { return host_memories_; }
  /// Waits for a push that works.
  void drop_references();
  std::uint64_t reference_bytes() const { return reference_bytes_; }
  /// Counts anew; for whose turn it is.
  void count_references();

 private:
  std::string location_;
  Environment environment_;
  wdelta_callbacks callbacks_;
  ThreadCounts threads_;
  const Engine* engine_;
  std::optional<DeviceMemories::User> device_user_;  // from push to push
  Access access_;
  mutable std::mutex resolve_mutex_;
  PushQueue push_queue_;
  std::shared_ptr<HostMemories> host_memories_ = std::make_shared<HostMemories>();
  std::map<std::string, ReferenceCopy> references_;  // by branch
  std::atomic<std::uint64_t> reference_bytes_ = 0;
};

}  // namespace wdelta

struct wdelta_repository {
  std::shared_ptr<wdelta::OpenRepository> open;
};
