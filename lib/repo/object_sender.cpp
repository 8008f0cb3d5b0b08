// SPDX-License-Identifier: Apache-2.0
#include "repo/object_sender.hpp"

#include "base/begin_thread.hpp"

#include <utility>

namespace wdelta {

void ObjectSender::send(const std::string& key, std::shared_ptr<const SteadyReader> file) {
  wait();
  sending_ = begin_aside([this, key, sent = std::move(file)] {
    if (is_there({key, sent->size_bytes()})) {
      execution_->progress->advance(sent->size_bytes());
    } else {
      store_->put_bytes(key, *sent, *execution_);
    }
  });
}

void ObjectSender::wait() {
  if (sending_.valid()) sending_.get();
}

// A push that is repeated finds what it had sent before it broke off.
bool ObjectSender::is_there(const Store::Wanted& wanted) const {
  constexpr std::uint64_t k_worth_asking_bytes = std::uint64_t{4} << 20;
  return wanted.size_bytes >= k_worth_asking_bytes && store_->has(wanted);
}

}  // namespace wdelta
