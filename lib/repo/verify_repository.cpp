// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/error.hpp"
#include "repo/gc_plan.hpp"
#include "repo/object_check.hpp"
#include "repo/rebuild_check.hpp"
#include "repo/reference_check.hpp"
#include "repo/refs_check.hpp"
#include "repo/verify.hpp"
#include "repo/verify_record.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

Digest digest_of_list(std::span<const CommitSummary> commits) {
  std::string text;
  for (const CommitSummary& commit : commits) text += fmt::format("{} {}\n", commit.distance, in_words(commit));
  return blake3(text);
}

class RepositoryCheck {
 public:
  RepositoryCheck(const Repository& repository, VerifyDepth depth, const Engine& engine, const Execution& execution)
      : repository_(&repository),
        depth_(depth),
        execution_(&execution),
        record_(execution),
        objects_(repository, depth, execution, record_),
        refs_(repository, execution, record_),
        rebuilds_(repository, objects_.kept(), engine, execution) {}

  VerifyReport run() {
    try {
      look();
    } catch (const Error& error) {
      // All else lies behind the same network. What was found must not be lost over it.
      if (error.fault() != Fault::network) throw;
      record_.report.add(error.object(), error);
    }
    return std::move(record_.report);
  }

 private:
  void look() {
    objects_.run();
    for (const RefKind kind : {RefKind::branch, RefKind::tag}) refs_.run(kind);
    const auto commits = list("commits/");
    for (const Store::Listed& listed : commits) listed_commits_.insert(listed.key);
    check_named();
    // Behind the commits: a commit's first book is there before it is. All at once: one list for each is a request
    // each.
    for (Store::Listed& listed : list("recipes/")) {
      if (const auto commit = commit_of_book(listed.key)) listed_books_[*commit].push_back(std::move(listed));
    }
    if (depth_ == VerifyDepth::deep) execution_->progress->begin("rebuilding commits", 0);
    // Read side by side where answers have to be waited for, and no more of them: a commit's recipes may be many.
    const std::size_t most = repository_->store().reads_at_once();
    for (std::size_t begin = 0; begin < commits.size(); begin += most) {
      const std::span piece = std::span(commits).subspan(begin, std::min(most, commits.size() - begin));
      std::vector<ReadCommit> read(piece.size());
      for_each_read(repository_->store(), piece.size(), execution_->stop,
                    [&](std::size_t i) { read[i] = read_commit(piece[i].key); });
      for (std::size_t i = 0; i < piece.size(); ++i)
        record_.check(piece[i], [&] { check_commit(piece[i].key, read[i]); });
    }
    check_named_before();
    check_ancestors();
    check_wanted();
    check_books();
    for (const Store::Listed& listed : list("gc/")) {
      if (listed.key == k_gc_plan_key) record_.check(listed, [&] { read_gc_plan(repository_->store()); });
    }
    check_references();
    // What opened the repository is there: a list without it has told nothing of what else is.
    if (commits.empty() && std::ranges::none_of(list(""), [](const auto& each) { return each.key == k_settings_key; }))
      record_.report.findings.push_back({k_settings_key, "is there, and the store does not list it", {}});
  }

  std::vector<Store::Listed> list(const std::string& prefix) const { return repository_->store().list(prefix); }

  void require_commit(const std::string& from, const Digest& id) {
    if (listed_commits_.contains(commit_key(id))) return;
    if (repository_->store().get(commit_key(id)) == nullptr) {
      throw Error(Fault::corrupt, from, fmt::format("names commit {}, which is missing", id.hex()));
    }
  }

  /// Neither a commit nor a failure where gc has taken it since commits were listed: if something names it that finds
  /// out.
  struct ReadCommit {
    std::optional<Commit> commit;
    std::optional<RecipeGraph> recipes;
    std::exception_ptr failure;  // of the first of the two that could not be had
  };

  ReadCommit read_commit(const std::string& key) const {
    ReadCommit read;
    try {
      const auto id = commit_of_key(key);
      if (!id) throw Error(Fault::corrupt, key, "has no name of a commit");
      try {
        read.commit = repository_->commit(*id);
      } catch (const Error& error) {
        if (error.fault() == Fault::corrupt && repository_->store().get(key) == nullptr) return read;
        throw;
      }
      const auto books = listed_books_.find(read.commit->id);
      read.recipes = books == listed_books_.end() ? repository_->recipes(*read.commit)
                                                  : repository_->recipes(*read.commit, books->second);
    } catch (const Error& error) {
      if (error.fault() == Fault::interrupted) throw;
      read.failure = std::current_exception();
    }
    return read;
  }

  void check_commit(const std::string& key, const ReadCommit& read) {
    if (!read.commit) {
      if (read.failure) std::rethrow_exception(read.failure);
      return;
    }
    const Commit& commit = *read.commit;
    lineages_[commit.id] = {commit.manifest.parent, digest_of_list(commit.manifest.ancestors),
                            digest_of_list(ancestors_of_child(commit.id, commit.manifest))};
    if (const auto& parent = commit.manifest.parent) {
      ++child_counts_[*parent];
      require_commit(key, *parent);
    }
    with_books_read_.insert(commit.id);
    if (read.failure) std::rethrow_exception(read.failure);
    for (const ManifestFile& file : commit.manifest.files) {
      if (file.content) proven_content(file, key);
    }
    const RecipeGraph& graph = *read.recipes;
    if (const ManifestFile* file = find_lacking(commit, graph)) {
      const FileIdentity& identity = file->identity;
      const std::string what = fmt::format("no recipe makes {:?} ({})", identity.path, identity.digest.hex());
      if (!graph.squashed()) {
        record_.offer_repair();
        throw Error(Fault::corrupt, key, what);
      }
      taken_.emplace(commit.id, what);
    }
    std::map<Digest, const Recipe*> needed;
    for (const ManifestFile& file : commit.manifest.files) {
      if (!file.content && graph.can_make(file.identity.digest)) graph.collect(file.identity.digest, needed);
    }
    for (const auto& [digest, recipe] : needed) {
      const auto lost = what_is_lost(*recipe);
      if (!lost) continue;
      if (graph.squashed()) {  // as what gc takes from it
        taken_.emplace(commit.id, *lost);
        return;
      }
      record_.offer_repair();
      throw Error(Fault::corrupt, key, *lost);
    }
    if (depth_ == VerifyDepth::deep) record_.report.checked_bytes += rebuilds_.run(commit, graph);
  }

  // Log, REV~N and step:N go by what a manifest says of its ancestors. When all have been read: keys are in no order of
  // time. Where the parent is missing that was found, or it was pushed since commits were listed.
  void check_ancestors() {
    for (const auto& [id, lineage] : lineages_) {
      if (!lineage.parent) continue;
      const auto parent = lineages_.find(*lineage.parent);
      if (parent == lineages_.end() || parent->second.of_child == lineage.ancestors) continue;
      record_.check(commit_key(id), [this, &child = id, parent] { say_what_differs(child, parent->first); });
    }
  }

  [[noreturn]] void say_what_differs(const Digest& id, const Digest& parent) const {
    const std::vector<CommitSummary> told = repository_->commit(id).manifest.ancestors;
    const std::vector<CommitSummary> real = ancestors_of_child(parent, repository_->commit(parent).manifest);
    const auto [first_told, first_real] = std::ranges::mismatch(told, real);
    const auto text_at = [](const auto& list, const auto& place) {
      return place == list.end() ? std::string("nothing")
                                 : fmt::format("{} {} back", in_words(*place), place->distance);
    };
    throw Error(Fault::corrupt, commit_key(id),
                fmt::format("its ancestors are not those that its parent {} has: {}, {} expected", parent.hex(),
                            text_at(told, first_told), text_at(real, first_real)));
  }

  void check_named() {
    for (const Fork& fork : refs_.named()) record_.check(fork.name, [&] { require_commit(fork.name, fork.commit); });
  }

  // Those that names stood for before stay, whatever they stand for now.
  void check_named_before() {
    for (const auto& named : refs_.named_before()) {
      const Digest& commit = named.first;
      const std::string& key = named.second;
      record_.check(key, [&] { require_commit(key, commit); });
    }
  }

  // Of commits that were given up and whose bytes gc took, those that something names now. At the end, when all
  // children are known.
  void check_wanted() {
    for (const auto& [id, what] : taken_) {
      const auto name = refs_.name_of(id);
      if (!name && child_counts_[id] < 2) {
        ++record_.report.taken_count;
        continue;
      }
      const std::string why = name ? *name + " names it" : "several commits have it for their parent";
      record_.report.findings.push_back({commit_key(id), fmt::format("{}, and {}", why, what), {}});
      record_.offer_repair();
    }
  }

  // Those of commits that are whole were read with them. Others are of damaged ones, or of pushes that have not come to
  // their end, or never will.
  void check_books() {
    for (const Store::Listed& listed : list("recipes/")) {
      const auto commit = commit_of_book(listed.key);
      if (commit && with_books_read_.contains(*commit)) continue;
      record_.check(listed, [&] {
        if (!commit) throw Error(Fault::corrupt, listed.key, "has no name of a recipe book");
        repository_->read_books(*commit, {&listed, 1});
      });
    }
  }

  /// What a recipe needs and is not there.
  std::optional<std::string> what_is_lost(const Recipe& recipe) {
    if (recipe.reference) {
      references_.push_back(recipe);
      return {};
    }
    const auto size_bytes = objects_.size_of(recipe.bytes.object);
    if (!size_bytes) return fmt::format("object {} is missing", recipe.bytes.object);
    if (recipe.bytes.fits_in(*size_bytes)) return {};
    return fmt::format("object {} is too short for a recipe", recipe.bytes.object);
  }

  // At the end, so that it takes few requests however many commits begin with one model.
  void check_references() {
    execution_->progress->begin("looking at models on the Hub", 0);
    std::set<std::string> names;
    for (const Recipe& recipe : references_) names.insert(recipe.reference->name());
    record_.report.checked += names.size();
    for (const LostReference& lost : find_lost_references(*repository_, references_, *execution_)) {
      record_.report.findings.push_back({lost.recipe.reference->name(), lost.what, {}});
      record_.offer_repair();
    }
  }

  /// What a commit says of those before it, and what its children must say: as digests, since there may be many.
  struct Lineage {
    std::optional<Digest> parent;
    Digest ancestors;
    Digest of_child;
  };

  const Repository* repository_;
  VerifyDepth depth_;
  const Execution* execution_;
  VerifyRecord record_;
  ObjectCheck objects_;
  RefsCheck refs_;
  RebuildCheck rebuilds_;
  std::set<std::string> listed_commits_;  // their keys
  std::map<Digest, std::vector<Store::Listed>> listed_books_;
  std::set<Digest> with_books_read_;            // commits, those included of which a book is damaged
  std::map<Digest, Lineage> lineages_;          // of commits whose manifest could be read
  std::map<Digest, std::size_t> child_counts_;  // by parent
  std::map<Digest, std::string> taken_;         // commits that were given up, and what they lack
  std::vector<Recipe> references_;
};

}  // namespace

VerifyReport verify_repository(const Repository& repository, VerifyDepth depth, const Engine& engine,
                               const Execution& execution) {
  return RepositoryCheck(repository, depth, engine, execution).run();
}

}  // namespace wdelta
