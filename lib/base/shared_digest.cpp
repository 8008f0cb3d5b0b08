// SPDX-License-Identifier: Apache-2.0
#include "base/shared_digest.hpp"

#include "base/reader_digest.hpp"

#include <chrono>

namespace wdelta {

Digest SharedDigest::of(const ByteReader& reader, const Execution& execution) {
  const std::lock_guard lock(mutex_);
  const std::chrono::nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
  const std::optional<std::int64_t> changed_ns = reader.changed_ns();
  if (known_ && known_->changed_ns == changed_ns) return known_->digest;
  known_.reset();
  const Digest digest = digest_of(reader, execution);
  // What was changed just now may change once more in the same tick of its clock, unseen.
  if (changed_ns && *changed_ns < now.count()) known_ = Known{*changed_ns, digest};
  return digest;
}

}  // namespace wdelta
