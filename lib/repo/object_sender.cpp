// SPDX-License-Identifier: Apache-2.0
#include "repo/object_sender.hpp"

#include "base/begin_thread.hpp"
#include "repo/gc_plan.hpp"

#include <utility>

namespace wdelta {

void ObjectSender::send(const std::string& key, std::shared_ptr<const SteadyReader> file) {
  wait();
  sending_ = begin_aside([this, key, sent = std::move(file)] {
    if (is_there_for_good({key, sent->size_bytes()})) {
      execution_->progress->advance(sent->size_bytes());
    } else {
      store_->put_bytes(key, *sent, *execution_);
    }
  });
}

void ObjectSender::wait() {
  if (sending_.valid()) sending_.get();
}

// A push that is repeated finds what it had sent before it broke off. What a plan of gc names may be about to go, and
// is sent again: that makes it younger than the plan.
bool ObjectSender::is_there_for_good(const Store::Wanted& wanted) {
  constexpr std::uint64_t k_worth_asking_bytes = std::uint64_t{4} << 20;
  if (wanted.size_bytes < k_worth_asking_bytes || !store_->has(wanted)) return false;
  if (!doomed_) {
    const std::optional<GcPlan> plan = read_gc_plan(*store_);
    doomed_.emplace();
    if (plan) doomed_->insert(plan->keys.begin(), plan->keys.end());
  }
  return !doomed_->contains(wanted.key);
}

}  // namespace wdelta
