// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace wdelta {

/// Readers of objects that somebody still holds. Many recipes lie in one pack: whoever asks for an object again reads
/// what the reader has fetched already.
class HeldReaders {
 public:
  /// The one of that name; null where nobody holds it.
  std::shared_ptr<const ByteReader> find(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto found = readers_.find(name);
    if (found == readers_.end()) return nullptr;
    auto reader = found->second.lock();
    if (!reader) readers_.erase(found);
    return reader;
  }
  void hold(const std::string& name, const std::shared_ptr<const ByteReader>& reader) {
    const std::lock_guard lock(mutex_);
    readers_[name] = reader;
  }
  /// The object is another one from now on, or gone.
  void forget(const std::string& name) {
    const std::lock_guard lock(mutex_);
    readers_.erase(name);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const ByteReader>> readers_;
};

}  // namespace wdelta
