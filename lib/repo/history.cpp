// SPDX-License-Identifier: Apache-2.0
#include "repo/history.hpp"

#include "base/error.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace wdelta {

namespace {

bool touches(const Recipe& recipe, const std::set<Digest>& digests) {
  return digests.contains(recipe.digest) ||
         std::ranges::any_of(recipe.base, [&](const Digest& base) { return digests.contains(base); });
}

}  // namespace

bool HistoryCommit::is_squashed() const {
  return std::ranges::any_of(books, [](const HistoryBook& book) { return book.squashed.has_value(); });
}

bool HistoryCommit::uses(const std::set<Digest>& digests) const {
  return std::ranges::any_of(books, [&](const HistoryBook& book) {
    return std::ranges::any_of(book.recipes, [&](const Recipe* recipe) { return touches(*recipe, digests); });
  });
}

std::vector<Recipe> HistoryCommit::recipes_without(const std::set<Digest>& digests) const {
  std::vector<Recipe> left;
  for (const HistoryBook& book : books) {
    for (const Recipe* recipe : book.recipes) {
      if (!touches(*recipe, digests)) left.push_back(*recipe);
    }
  }
  return left;
}

std::vector<Digest> HistoryCommit::digests() const {
  std::vector<Digest> all;
  std::ranges::transform(files, std::back_inserter(all), &FileIdentity::digest);
  return all;
}

std::vector<FileIdentity> HistoryCommit::lacking(const RecipeGraph& graph) const {
  std::vector<FileIdentity> left;
  std::ranges::copy_if(files, std::back_inserter(left),
                       [&](const FileIdentity& file) { return !graph.can_make(file.digest); });
  return left;
}

const FileIdentity* HistoryCommit::first_lacking(const RecipeGraph& graph) const {
  const auto lacks =
      std::ranges::find_if(files, [&](const FileIdentity& file) { return !graph.can_make(file.digest); });
  return lacks == files.end() ? nullptr : &*lacks;
}

HistoryCommit History::read_commit(const Manifest& manifest, std::vector<StoredBook> books) {
  HistoryCommit commit;
  commit.parent = manifest.parent;
  for (const ManifestFile& file : manifest.files) {
    (file.content ? commit.inlined : commit.files).push_back(file.identity);
  }
  for (StoredBook& stored : books) {
    commit.books.push_back({std::move(stored.key), pool_->keep(std::move(stored.book.recipes)),
                            std::move(stored.book.squashed), stored.written_ms});
  }
  return commit;
}

History History::read_one(const Repository& repository, const Digest& id) {
  History history;
  history.commits_.emplace(id, history.read_commit(repository.commit(id).manifest, repository.read_books(id)));
  return history;
}

History History::read(const Repository& repository, const Execution& execution) {
  History history;
  const std::vector<Store::Listed> commits = repository.store().list("commits/");
  // Behind them: a commit's first book is there before it is. All at once: one list for each would be a request each.
  std::map<Digest, std::vector<Store::Listed>> books;
  for (Store::Listed& listed : repository.store().list("recipes/")) {
    if (const auto commit = commit_of_book(listed.key)) books[*commit].push_back(std::move(listed));
  }
  std::vector<std::optional<std::pair<Digest, HistoryCommit>>> found(commits.size());
  for_each_read(repository.store(), commits.size(), execution.stop, [&](std::size_t i) {
    const auto id = commit_of_key(commits[i].key);
    if (!id) return;
    Manifest manifest;
    try {
      manifest = repository.commit(*id).manifest;
    } catch (const Error& error) {
      // Another gc has taken it since, as nothing named it; where something does that is found below.
      if (error.fault() == Fault::corrupt && repository.store().get(commit_key(*id)) == nullptr) return;
      throw;
    }
    const auto listed = books.find(*id);
    found[i].emplace(*id, history.read_commit(
                              manifest, repository.read_books(*id, listed == books.end() ? std::vector<Store::Listed>()
                                                                                         : listed->second)));
  });
  for (auto& each : found) {
    if (each) history.commits_.insert(std::move(*each));
  }
  for (const auto& [id, commit] : history.commits_) {
    if (!commit.parent) continue;
    const auto parent = history.commits_.find(*commit.parent);
    if (parent == history.commits_.end())
      throw Error(Fault::corrupt, commit_key(*commit.parent), "is missing, a commit has it for its parent",
                  "run wdelta verify REPO");
    ++parent->second.child_count;
  }
  for (const RefKind kind : {RefKind::branch, RefKind::tag}) {
    for (const auto& [name, ref] : repository.refs().list(kind)) history.named_.insert(*ref.commit);
  }
  return history;
}

std::vector<Digest> History::between(const std::optional<Digest>& from, const Digest& to) const {
  if (!commits_.contains(to))
    throw Error(Fault::not_found, commit_key(to), "is there and the store does not list it yet", "run this again");
  std::vector<Digest> path;
  for (std::optional<Digest> next = to; next != from; next = at(*next).parent) {
    if (!next) {
      throw Error(Fault::usage, from->hex(), "is no ancestor of " + to.hex(), "write A..B with the older commit first");
    }
    path.push_back(*next);
  }
  return path;
}

std::vector<Digest> History::oldest_first() const {
  std::multimap<Digest, Digest> children;
  std::vector<Digest> order;
  for (const auto& [id, commit] : commits_) {
    if (commit.parent) {
      children.emplace(*commit.parent, id);
    } else {
      order.push_back(id);
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto [begin, end] = children.equal_range(order[i]);
    for (auto child = begin; child != end; ++child) order.push_back(child->second);
  }
  return order;
}

bool History::is_landmark(const Digest& id) const { return named_.contains(id) || at(id).child_count > 1; }

std::set<Digest> History::files_only_of(const std::set<Digest>& given_up) const {
  std::set<Digest> only;
  for (const Digest& id : given_up) {
    for (const FileIdentity& file : at(id).files) only.insert(file.digest);
  }
  for (const auto& [id, commit] : commits_) {
    if (given_up.contains(id)) continue;
    for (const FileIdentity& file : commit.files) only.erase(file.digest);
  }
  return only;
}

void History::forget(const std::function<bool(const Recipe&)>& is_lost) {
  for (auto& [id, commit] : commits_) {
    for (HistoryBook& book : commit.books)
      std::erase_if(book.recipes, [&](const Recipe* recipe) { return is_lost(*recipe); });
  }
}

std::vector<Recipe> History::recipes_without(const std::set<Digest>& digests) const {
  std::unordered_set<const Recipe*> seen;
  std::vector<Recipe> left;
  for (const auto& [id, commit] : commits_) {
    for (const HistoryBook& book : commit.books) {
      for (const Recipe* recipe : book.recipes) {
        if (seen.insert(recipe).second && !touches(*recipe, digests)) left.push_back(*recipe);
      }
    }
  }
  return left;
}

}  // namespace wdelta
