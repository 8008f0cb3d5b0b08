// SPDX-License-Identifier: Apache-2.0
#include "repo/stats.hpp"

#include "repo/history.hpp"
#include "repo/stored_objects.hpp"

#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace wdelta {

namespace {

// Of files that no object is for, those that lie in a model.
void add_references(RepositoryStats& stats, const std::vector<Recipe>& recipes, const StoredObjects& objects) {
  std::map<Digest, std::uint64_t> referred;
  std::set<Digest> here;
  for (const Recipe& recipe : recipes) {
    if (recipe.reference) {
      referred[recipe.digest] = recipe.size_bytes;
    } else if (recipe.base.empty() && objects.have(recipe)) {
      here.insert(recipe.digest);
    }
  }
  for (const auto& [digest, size_bytes] : referred) stats.referred_bytes += here.contains(digest) ? 0 : size_bytes;
}

// Sizes of what recipes take of objects that are there, each stretch once: several may take the same.
void add_recipes(RepositoryStats& stats, const std::vector<Recipe>& recipes, const StoredObjects& objects) {
  std::set<std::tuple<std::string, std::uint64_t, std::uint64_t>> seen;
  for (const Recipe& recipe : recipes) {
    const ObjectRange& bytes = recipe.bytes;
    if (recipe.reference || !objects.have(recipe) || !seen.emplace(bytes.object, bytes.offset, bytes.length).second)
      continue;
    (recipe.base.empty() ? stats.whole_bytes : stats.delta_bytes) += bytes.length;
  }
}

void add_files(RepositoryStats& stats, const History& history) {
  std::map<Digest, std::uint64_t> distinct;
  const auto add = [&](const std::vector<FileIdentity>& files) {
    for (const FileIdentity& file : files) {
      ++stats.file_count;
      stats.checkpoint_bytes += file.size_bytes;
      distinct[file.digest] = file.size_bytes;
    }
  };
  for (const auto& [id, commit] : history.commits()) {
    if (history.is_given_up(id)) continue;
    add(commit.files);
    add(commit.inlined);
  }
  stats.distinct_file_count = distinct.size();
  for (const auto& [digest, size_bytes] : distinct) stats.distinct_bytes += size_bytes;
}

// Throws corrupt when one of them names a commit that is missing.
std::size_t count_refs(const Repository& repository, const History& history, RefKind kind) {
  const auto refs = repository.refs().list(kind);
  for (const auto& [name, ref] : refs) {
    // Pushed since the history was read, or missing.
    if (!history.commits().contains(*ref.commit)) repository.commit(*ref.commit);
  }
  return refs.size();
}

}  // namespace

RepositoryStats read_stats(const Repository& repository, const Execution& execution) {
  execution.progress->begin("reading the history", 0);
  RepositoryStats stats;
  const History history = History::read(repository, execution);
  stats.commit_count = history.commits().size();
  for (const auto& [id, commit] : history.commits()) stats.given_up_count += history.is_given_up(id) ? 1 : 0;
  stats.branch_count = count_refs(repository, history, RefKind::branch);
  stats.tag_count = count_refs(repository, history, RefKind::tag);
  add_files(stats, history);
  const std::vector<Store::Listed> keys = repository.store().list("");
  for (const Store::Listed& listed : keys) {
    stats.stored_bytes += listed.size_bytes;
    if (!listed.key.starts_with("objects/")) continue;
    ++stats.object_count;
    stats.object_bytes += listed.size_bytes;
  }
  const StoredObjects objects{std::span<const Store::Listed>(keys)};
  const std::vector<Recipe> recipes = history.recipes_without({});
  add_recipes(stats, recipes, objects);
  add_references(stats, recipes, objects);
  return stats;
}

}  // namespace wdelta
