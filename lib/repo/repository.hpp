// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "repo/manifest.hpp"
#include "repo/recipe.hpp"
#include "repo/refs.hpp"
#include "repo/repository_settings.hpp"
#include "store/model_hub.hpp"
#include "store/store.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

inline constexpr const char* k_main_branch = "main";

/// A commit and its id.
struct Commit {
  Digest id;
  Manifest manifest;
};

/// A recipe book and how it is kept.
struct StoredBook {
  std::string key;
  RecipeBook book;
  std::int64_t written_ms = 0;  ///< by the store's clock
};

/// A repository in a store. Methods that read never write.
class Repository {
 public:
  /// Throws not_found when there is none, corrupt or unsupported when its wdelta.json is not ours to read.
  static Repository open(const std::string& location, const Access& access = {}, const Execution& execution = {});
  /// The same, but makes a new one where there is nothing. Throws usage when there is something else.
  static Repository open_or_create(const std::string& location, const Access& access = {},
                                   const Execution& execution = {});
  /// The same over a store of the caller's; with `models`, its recipes may refer to what is there.
  static Repository open_or_create(std::unique_ptr<Store> store, std::shared_ptr<const ModelHub> models = nullptr);

  const std::string& name() const { return store_->name(); }
  Store& store() const { return *store_; }
  /// Models on the Hub, which recipes may refer to. Throws unsupported where they cannot be reached at all.
  const ModelHub& models() const;
  /// Its branches and tags.
  Refs refs() const { return {*store_, settings_.contest}; }
  /// Random, drawn when it was created: tells two repositories at one place apart.
  const std::string& id() const { return settings_.id; }

  /// The commit of that id, which a branch, a tag or another commit names: throws corrupt when it is missing, or its
  /// bytes are not what its id says.
  Commit commit(const Digest& id) const;
  /// The commit of which the manifest of one after it says this. Throws corrupt as well when its own says otherwise.
  Commit commit(const CommitSummary& told) const;
  /// The recipes of all books of a commit, settled.
  RecipeGraph recipes(const Commit& commit) const;
  /// The same where they are listed already: what read_books() takes.
  RecipeGraph recipes(const Commit& commit, std::span<const Store::Listed> listed) const;
  /// Every book of a commit, each checked against its digest. What lies beside them is passed over.
  std::vector<StoredBook> read_books(const Digest& commit) const;
  /// The same where `listed` are the keys of its books by now: without a request for them unless one of them is gone.
  std::vector<StoredBook> read_books(const Digest& commit, std::span<const Store::Listed> listed) const;
  /// Adds a commit, its book first. Throws corrupt, and adds nothing, where nobody could read it: nothing could be
  /// pushed on top of it either.
  void put_commit(const Digest& id, const std::string& manifest_text, const BookBytes& book);
  /// Adds a book to a commit; returns its key.
  std::string put_book(const Digest& commit, const RecipeBook& book) { return put_book(commit, bytes_of(book)); }
  std::string put_book(const Digest& commit, const BookBytes& book);

  /// The commit that a revision names (wdelta(1), "Revisions"). Throws not_found, or usage when it is ambiguous or not
  /// in the grammar.
  Digest resolve(const std::string& revision) const { return commit_at(revision).id; }
  /// The same commit, whose manifest was read to be sure that it is there.
  Commit commit_at(const std::string& revision) const;
  /// Visits `from` and its ancestors, newest first, until `visit` returns false. Reads one manifest for 64 commits.
  void walk(const Digest& from, const std::function<bool(const CommitSummary&)>& visit) const {
    walk(commit(from), visit);
  }
  void walk(Commit from, const std::function<bool(const CommitSummary&)>& visit) const;

 private:
  /// Opened when it is first asked for: a repository without references needs no network.
  class Models;

  Repository(std::unique_ptr<Store> store, RepositorySettings settings, std::shared_ptr<Models> models);
  static Repository open_or_create(std::unique_ptr<Store> store, std::shared_ptr<Models> models);

  // Nothing when one of them is not there any more.
  std::optional<std::vector<StoredBook>> try_to_read(std::span<const Store::Listed> listed) const;

  std::unique_ptr<Store> store_;
  RepositorySettings settings_;
  std::shared_ptr<Models> models_;
};

std::string commit_key(const Digest& id);
/// The commit whose manifest has that key; nothing when it is the key of none.
std::optional<Digest> commit_of_key(const std::string& key);
/// The commit whose recipe book has that key; nothing when it is the key of none.
std::optional<Digest> commit_of_book(const std::string& key);

/// A repository and maybe a revision in it, as a user writes them.
struct Location {
  std::string repository;
  std::string revision;  ///< empty: the tip of main
};

/// Splits REPO@REV at the last '@', unless the whole is the path of something that exists. `default_repository` stands
/// in when nothing is before the '@'.
Location parse_location(const std::string& text, const std::string& default_repository);

}  // namespace wdelta
