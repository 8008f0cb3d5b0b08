// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "repo/refs.hpp"
#include "repo/repository.hpp"
#include "repo/verify_record.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// Checks the entries of branches and tags, and keeps which commits they name: whether these are there is looked at
/// when all commits are known.
class RefsCheck {
 public:
  /// All must outlive the check.
  RefsCheck(const Repository& repository, const Execution& execution, VerifyRecord& record)
      : repository_(&repository), execution_(&execution), record_(&record) {}

  /// Looks at all branches, or all tags: once each. Says of forks that they are there.
  void run(RefKind kind);

  /// What branches, tags and forks stand for.
  const std::vector<Fork>& named() const { return named_; }
  /// Commits by entries, old ones too, that no branch or tag names now, each with the key of the first that names it.
  std::map<Digest, std::string> named_before() const;
  /// The first branch or tag that names it now, as in "branch main".
  std::optional<std::string> name_of(const Digest& commit) const;

 private:
  void check_entries(RefKind kind);

  const Repository* repository_;
  const Execution* execution_;
  VerifyRecord* record_;
  std::map<Digest, std::string> names_;
  std::vector<Fork> named_;
  std::map<Digest, std::string> ever_named_;
};

}  // namespace wdelta
