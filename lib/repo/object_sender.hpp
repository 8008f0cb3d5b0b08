// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "base/steady_reader.hpp"
#include "store/store.hpp"

#include <future>
#include <memory>
#include <string>

namespace wdelta {

/// Sends large files to a remote store, from where they lie, each while the next one is looked at.
class ObjectSender {
 public:
  /// Both must outlive it.
  ObjectSender(Store& store, const Execution& execution) : store_(&store), execution_(&execution) {}

  /// Waits until the one before is there, then begins with this one, unless the store has it already. Throws what went
  /// wrong with the one before.
  void send(const std::string& key, std::shared_ptr<const SteadyReader> file);
  /// Returns once all are there; throws what went wrong.
  void wait();

 private:
  bool is_there(const Store::Wanted& wanted) const;

  Store* store_;
  const Execution* execution_;
  std::future<void> sending_;  // last: it uses the rest
};

}  // namespace wdelta
