// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "repo/repository.hpp"

#include <cstddef>
#include <cstdint>

namespace wdelta {

/// What a repository holds, and what that takes.
struct RepositoryStats {
  std::size_t commit_count = 0;
  std::size_t given_up_count = 0;  ///< of these, given up (squash)
  std::size_t branch_count = 0;
  std::size_t tag_count = 0;
  std::size_t file_count = 0;          ///< files of commits that are not given up
  std::uint64_t checkpoint_bytes = 0;  ///< what they would take, each stored whole
  std::size_t distinct_file_count = 0;
  std::uint64_t distinct_bytes = 0;  ///< the same, each content stored once
  std::size_t object_count = 0;
  std::uint64_t object_bytes = 0;
  std::uint64_t whole_bytes = 0;     ///< in objects: files stored whole, as they are or compressed
  std::uint64_t delta_bytes = 0;     ///< in objects: deltas; what is in no recipe makes up the rest
  std::uint64_t referred_bytes = 0;  ///< files that lie in models on the Hub and nowhere here
  std::uint64_t stored_bytes = 0;    ///< objects and documents
};

/// Reads all documents, no objects. Throws corrupt when one is damaged.
RepositoryStats read_stats(const Repository& repository, const Execution& execution);

}  // namespace wdelta
