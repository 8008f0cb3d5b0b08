// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "c/memory_copy.hpp"
#include "repo/push.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace wdelta {

/// Files in memory, by their places.
using MemoryFiles = std::map<std::string, std::shared_ptr<const ByteReader>>;

/// The files of the commit that a branch was pushed to last, in the memory of the host or a device. One thread at a
/// time.
class ReferenceCopy {
 public:
  /// Nothing when there is none.
  std::optional<CommitAtHand> at_hand() const;
  std::uint64_t size_bytes() const;

  /// Keeps files that nobody will change.
  void keep(const Digest& commit, MemoryFiles files);
  /// Keeps copies of files, on `device` where that is not null; in the memory of those before where it has their size.
  /// There is none when this throws.
  void copy(const Digest& commit, const MemoryFiles& files, Device* device, const Execution& execution);
  void drop() { *this = {}; }

 private:
  std::optional<Digest> commit_;
  MemoryFiles files_;
  Device* device_ = nullptr;                                   // on which copies_ are
  std::map<std::string, std::shared_ptr<MemoryCopy>> copies_;  // those of files_ that can be written over
};

}  // namespace wdelta
