// SPDX-License-Identifier: Apache-2.0
// What becomes of the recipe books of commits that squash gave up.
#pragma once

#include "repo/history.hpp"
#include "repo/refs.hpp"
#include "repo/repository.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace wdelta {

/// What counts when it is told how long a thing was needed.
struct GcTime {
  std::int64_t now_s;  // by the store's clock
  std::chrono::seconds grace;

  bool is_past(std::int64_t since_ms) const { return since_ms / 1000 + grace.count() <= now_s; }
};

/// What branches and tags name, and what they named before.
std::vector<NamedCommit> ever_named_in(const Repository& repository);

/// What becomes of books once some commits are given up.
struct BookChanges {
  std::map<Digest, RecipeBook> new_books;  // by commit: each in place of all that it has
  std::set<std::string> old_keys;          // of books that go
  std::vector<Digest> given_up;            // commits whose books go
};

/// Commits that squash gave up, and whose names were taken away, if they had any, a grace time ago or longer: their
/// recipes go, and those that lead through them from books of others.
BookChanges changes_of_books(const History& history, const std::vector<NamedCommit>& ever_named, const GcTime& time,
                             const Store& store);

/// Carries them out: new books are there before old ones go. A commit that has got a name since the history was read is
/// wanted: its books stay, and it is taken from `changes.given_up`.
void carry_out(BookChanges& changes, Repository& repository, const History& history, const GcTime& time);

}  // namespace wdelta
