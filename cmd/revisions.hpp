// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace wdelta::cmd {

/// Something that may stand where the cursor is.
struct Candidate {
  std::string text;
  std::string description;
};

enum class RevisionKinds { branches, tags, all };

/// The revisions of a repository that begin with `prefix`. What cannot be read is left out: nothing is thrown. Without
/// a prefix only the newest commits are among them.
std::vector<Candidate> revision_candidates(const std::string& repository, const std::string& prefix,
                                           RevisionKinds kinds);

}  // namespace wdelta::cmd
