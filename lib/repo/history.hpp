// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/execution.hpp"
#include "repo/recipe_pool.hpp"
#include "repo/repository.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace wdelta {

/// A recipe book, with recipes of the history's pool.
struct HistoryBook {
  std::string key;
  std::vector<const Recipe*> recipes;
  std::optional<std::string> squashed;
  std::int64_t written_ms = 0;
};

/// What is there of one commit, for work on the whole repository.
struct HistoryCommit {
  std::optional<Digest> parent;
  std::size_t child_count = 0;
  std::vector<FileIdentity> files;    ///< those whose bytes are not in the manifest
  std::vector<FileIdentity> inlined;  ///< those whose bytes are
  std::vector<HistoryBook> books;

  bool is_squashed() const;
  /// Whether one of its books touches one of these digests.
  bool uses(const std::set<Digest>& digests) const;
  /// All recipes of its books but those that make or need one of these digests.
  std::vector<Recipe> recipes_without(const std::set<Digest>& digests) const;
  /// What `files` have.
  std::vector<Digest> digests() const;
  /// The files that `graph` has no way to.
  std::vector<FileIdentity> lacking(const RecipeGraph& graph) const;
  /// The first of them; null when there is none.
  const FileIdentity* first_lacking(const RecipeGraph& graph) const;
};

/// Every commit that there is, whether or not a branch leads to it.
class History {
 public:
  /// Reads all manifests and all books.
  static History read(const Repository& repository, const Execution& execution);
  /// That commit alone, as if there were no other and no name.
  static History read_one(const Repository& repository, const Digest& id);

  const std::map<Digest, HistoryCommit>& commits() const { return commits_; }
  const HistoryCommit& at(const Digest& id) const { return commits_.at(id); }
  /// The commits behind `from`, up to and including `to`, from `to` backwards; without `from`, back to the first one.
  /// Throws usage when `from` is no ancestor of `to`.
  std::vector<Digest> between(const std::optional<Digest>& from, const Digest& to) const;
  /// All commits, each behind its parent.
  std::vector<Digest> oldest_first() const;
  /// Whether something begins or is named here: a tag, a branch, a commit with more than one child.
  bool is_landmark(const Digest& id) const;
  /// Whether squash marked it and it is no landmark: one that was named since is wanted after all.
  bool is_given_up(const Digest& id) const { return at(id).is_squashed() && !is_landmark(id); }
  /// The digests of files of `given_up` commits that no other commit has which is not given up as well.
  std::set<Digest> files_only_of(const std::set<Digest>& given_up) const;
  /// Forgets the recipes of all books that are lost: whoever builds on what is left cannot build upon these.
  void forget(const std::function<bool(const Recipe&)>& is_lost);
  /// All recipes of all books but those that make or need one of these digests, each once.
  std::vector<Recipe> recipes_without(const std::set<Digest>& digests) const;

 private:
  HistoryCommit read_commit(const Manifest& manifest, std::vector<StoredBook> books);

  std::unique_ptr<RecipePool> pool_ = std::make_unique<RecipePool>();
  std::map<Digest, HistoryCommit> commits_;
  std::set<Digest> named_;
};

}  // namespace wdelta
