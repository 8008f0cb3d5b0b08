// SPDX-License-Identifier: Apache-2.0
#include "repo/given_up_books.hpp"

#include "repo/stored_objects.hpp"

#include <algorithm>
#include <iterator>

namespace wdelta {

namespace {

std::vector<Recipe> recipes_of(const HistoryBook& book) {
  std::vector<Recipe> recipes;
  for (const Recipe* recipe : book.recipes) recipes.push_back(*recipe);
  return recipes;
}

BookChanges changes_after(const History& history, const std::set<Digest>& given_up, const Store& store) {
  if (given_up.empty()) return {};
  const StoredObjects objects(store);
  const std::set<Digest> gone = history.files_only_of(given_up);
  BookChanges changes;
  for (const auto& [id, commit] : history.commits()) {
    if (given_up.contains(id) || !commit.uses(gone)) continue;
    std::vector<Recipe> left = commit.recipes_without(gone);
    std::erase_if(left, [&](const Recipe& recipe) { return !objects.have(recipe); });
    const RecipeGraph graph = RecipeGraph::of(left);
    // Pushed while squash ran, or what squash relied upon is lost: it leads through what is gone, and goes on doing so.
    if (commit.first_lacking(graph)) continue;
    changes.new_books[id] = {graph.book_for(commit.digests(), k_recent_ancestors), {}};
    for (const HistoryBook& book : commit.books) changes.old_keys.insert(book.key);
  }
  for (const Digest& id : given_up) {
    bool any = false;
    for (const HistoryBook& book : history.at(id).books) {
      if (!book.squashed) any |= changes.old_keys.insert(book.key).second;
    }
    if (any) changes.given_up.push_back(id);
  }
  return changes;
}

// Those that a branch or tag stands at, or did a grace time ago.
std::set<Digest> named_lately(const std::vector<NamedCommit>& ever_named, const GcTime& time) {
  std::set<Digest> named;
  for (const auto& [id, until_ms] : ever_named) {
    if (!until_ms || !time.is_past(*until_ms)) named.insert(id);
  }
  return named;
}

// A commit that has got a name since the history was read is wanted: its books stay.
void spare_named(BookChanges& changes, const Repository& repository, const GcTime& time) {
  const std::set<Digest> named = named_lately(ever_named_in(repository), time);
  std::erase_if(changes.given_up, [&](const Digest& id) { return named.contains(id); });
  std::erase_if(changes.old_keys, [&](const std::string& key) {
    const auto commit = commit_of_book(key);
    return commit && named.contains(*commit) && !changes.new_books.contains(*commit);
  });
}

// What a name stood for when names were read it may have left since, before the history was read, for a commit that is
// not in it.
std::set<Digest> expired(const History& history, const std::vector<NamedCommit>& ever_named, const GcTime& time) {
  const std::set<Digest> named = named_lately(ever_named, time);
  std::set<Digest> commits;
  for (const auto& [id, commit] : history.commits()) {
    if (!history.is_given_up(id) || named.contains(id)) continue;
    for (const HistoryBook& book : commit.books) {
      if (book.squashed && time.is_past(book.written_ms)) commits.insert(id);
    }
  }
  return commits;
}

}  // namespace

std::vector<NamedCommit> ever_named_in(const Repository& repository) {
  std::vector<NamedCommit> named = repository.refs().ever_named(RefKind::branch);
  std::ranges::copy(repository.refs().ever_named(RefKind::tag), std::back_inserter(named));
  return named;
}

BookChanges changes_of_books(const History& history, const std::vector<NamedCommit>& ever_named, const GcTime& time,
                             const Store& store) {
  return changes_after(history, expired(history, ever_named, time), store);
}

void carry_out(BookChanges& changes, Repository& repository, const History& history, const GcTime& time) {
  for (const auto& [id, book] : changes.new_books) changes.old_keys.erase(repository.put_book(id, book));
  if (!changes.given_up.empty()) spare_named(changes, repository, time);
  // Those of commits that are given up last: where they are gone all else is done.
  std::vector<std::string> keys(changes.old_keys.begin(), changes.old_keys.end());
  std::stable_partition(keys.begin(), keys.end(), [&](const std::string& key) {
    const auto commit = commit_of_book(key);
    return !commit || std::ranges::find(changes.given_up, *commit) == changes.given_up.end();
  });
  repository.store().flush();
  repository.store().remove_all(keys);
  if (changes.given_up.empty()) return;
  // Whoever named one of them meanwhile may have found its books where they were.
  const std::set<Digest> named = named_lately(ever_named_in(repository), time);
  std::erase_if(changes.given_up, [&](const Digest& id) {
    if (!named.contains(id)) return false;
    for (const HistoryBook& book : history.at(id).books) {
      if (!book.squashed) repository.put_book(id, RecipeBook{recipes_of(book), {}});
    }
    return true;
  });
  repository.store().flush();
}

}  // namespace wdelta
