// SPDX-License-Identifier: Apache-2.0
#include "repo/repair.hpp"

#include "base/error.hpp"
#include "base/reader_digest.hpp"
#include "repo/history.hpp"
#include "repo/object_writer.hpp"
#include "repo/reference_check.hpp"
#include "repo/stored_objects.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace wdelta {

namespace {

/// Tells the recipes that can be followed from those that cannot.
class Followable {
 public:
  Followable(const Repository& repository, const History& history, const Execution& execution)
      : objects_(repository.store()) {
    std::vector<Recipe> recipes = history.recipes_without({});
    std::erase_if(recipes, [](const Recipe& recipe) { return !recipe.reference; });
    for (const LostReference& lost : find_lost_references(repository, recipes, execution))
      lost_references_.insert(lost.recipe.reference->name());
  }

  bool operator()(const Recipe& recipe) const {
    return recipe.reference ? !lost_references_.contains(recipe.reference->name()) : objects_.have(recipe);
  }

 private:
  StoredObjects objects_;
  std::set<std::string> lost_references_;
};

/// A commit with recipes that cannot be followed.
struct DamagedCommit {
  Digest id;
  const HistoryCommit* commit = nullptr;
  std::vector<Recipe> left;                      // recipes that can be followed
  std::vector<FileIdentity> lacking;             // files that these do not make
  std::map<Digest, std::uint64_t> wanted_sizes;  // what is worth looking for, where there are some
};

/// Of the history's commits, or that one even if it was given up.
std::vector<DamagedCommit> find_damaged(const History& history, const std::optional<Digest>& only,
                                        const Followable& can_follow) {
  std::vector<DamagedCommit> damaged;
  for (const auto& [id, commit] : history.commits()) {
    if (!only && history.is_given_up(id)) continue;
    DamagedCommit found{id, &commit, {}, {}, {}};
    bool is_whole = true;
    for (const Recipe& recipe : commit.recipes_without({})) {
      if (can_follow(recipe)) {
        found.left.push_back(recipe);
      } else {
        is_whole = false;
        found.wanted_sizes[recipe.digest] = recipe.size_bytes;
      }
    }
    found.lacking = commit.lacking(RecipeGraph::of(found.left));
    for (const FileIdentity& file : found.lacking) found.wanted_sizes[file.digest] = file.size_bytes;
    if (found.lacking.empty()) found.wanted_sizes.clear();
    if (!is_whole || !found.lacking.empty()) damaged.push_back(std::move(found));
  }
  return damaged;
}

/// Puts one book with these recipes in place of all books of a commit, which they are enough for. Returns the keys of
/// those that can go.
std::vector<std::string> replace_books(Repository& repository, const DamagedCommit& damaged,
                                       const RecipeGraph& recipes) {
  const HistoryCommit& commit = *damaged.commit;
  const RecipeBook book{recipes.book_for(commit.digests(), k_recent_ancestors), {}};
  const std::string key = repository.put_book(damaged.id, book);
  std::vector<std::string> old_keys;
  for (const HistoryBook& old : commit.books) {
    if (old.key != key && !old.squashed) old_keys.push_back(old.key);
  }
  return old_keys;
}

}  // namespace

RepairReport repair(Repository& repository, const std::optional<Digest>& commit, const Checkpoint& copy,
                    const Execution& execution) {
  execution.progress->begin("looking for what is lost", 0);
  const History history = commit ? History::read_one(repository, *commit) : History::read(repository, execution);
  const std::vector<DamagedCommit> damaged = find_damaged(history, commit, Followable(repository, history, execution));
  std::map<Digest, std::uint64_t> wanted;
  std::set<std::uint64_t> wanted_sizes;
  for (const DamagedCommit& each : damaged) {
    wanted.insert(each.wanted_sizes.begin(), each.wanted_sizes.end());
    for (const auto& [digest, size_bytes] : each.wanted_sizes) wanted_sizes.insert(size_bytes);
  }

  RepairReport report;
  const RecipeGraph nothing_known;
  ObjectWriter objects(repository.store(), nothing_known, execution);
  std::uint64_t total_bytes = 0;
  for (const CheckpointFile& file : copy.files()) {
    if (wanted_sizes.contains(file.size_bytes)) total_bytes += file.size_bytes;
  }
  execution.progress->begin("restoring", total_bytes);
  for (const CheckpointFile& file : copy.files()) {
    if (!wanted_sizes.contains(file.size_bytes)) continue;
    const auto reader = file.open();
    const Digest digest = digest_of(*reader, execution);
    if (!wanted.contains(digest) || objects.has(digest)) continue;
    if (objects.put_whole(reader, file.path) != digest)
      throw Error(Fault::local, reader->name(), "changed while it was read");
    report.restored.push_back({file.path, file.size_bytes, digest});
  }
  objects.finish();
  report.stored_bytes = objects.stored_bytes();

  // What cannot be followed goes, once there is another way to all files of the commit: readers would try it first, and
  // the books of pushes to come hold only the cheapest way to what lies far back.
  std::vector<std::string> old_keys;
  for (const DamagedCommit& each : damaged) {
    std::vector<Recipe> added;
    std::ranges::copy_if(objects.recipes(), std::back_inserter(added),
                         [&](const Recipe& recipe) { return each.wanted_sizes.contains(recipe.digest); });
    RecipeGraph graph;
    graph.add(each.left);
    graph.add(added);
    graph.settle();
    const std::vector<FileIdentity> missing = each.commit->lacking(graph);
    if (missing.empty()) {
      std::ranges::copy(replace_books(repository, each, graph), std::back_inserter(old_keys));
    } else if (!added.empty()) {
      repository.put_book(each.id, {added, {}});
    }
    for (const FileIdentity& file : missing) report.missing.push_back({each.id, file});
    report.repaired_commits += missing.empty() && !each.lacking.empty() ? 1 : 0;
  }
  repository.store().flush();
  repository.store().remove_all(old_keys);
  return report;
}

}  // namespace wdelta
