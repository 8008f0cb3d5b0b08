// SPDX-License-Identifier: Apache-2.0
#include "repo/squash.hpp"

#include "base/error.hpp"
#include "base/moment.hpp"
#include "repo/commit_checkpoint.hpp"
#include "repo/file_keeper.hpp"
#include "repo/history.hpp"
#include "repo/previous_checkpoint.hpp"
#include "repo/stored_objects.hpp"
#include "repo/version_finder.hpp"
#include "store/store_space.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <set>

namespace wdelta {

namespace {

class Squash {
 public:
  /// `gone`: the digests to do without.
  Squash(Repository& repository, const History& history, const std::optional<Digest>& from, std::set<Digest> gone,
         const Engine& engine, const Execution& execution)
      : repository_(&repository), history_(&history), gone_(std::move(gone)), engine_(&engine), execution_(&execution) {
    if (!from) return;
    // Whoever gets a delta from there must be able to make what it starts from: its book may end at an anchor before.
    const HistoryCommit& start = history.at(*from);
    added_ = graph_without_gone(start).book_for(start.digests(), 0);
  }

  /// Makes every file of `target` that no recipe makes any more without what is given up; as deltas from `before`.
  void keep(const Digest& target, const std::optional<Digest>& before, SquashInto into) {
    const Commit commit = repository_->commit(target);
    const RecipeGraph known = graph_without_gone(history_->at(target));
    std::optional<Commit> base;
    std::optional<RecipeGraph> base_graph;
    std::optional<PreviousCheckpoint> previous;
    if (before && into == SquashInto::delta) {
      base = repository_->commit(*before);
      base_graph = repository_->recipes(*base);
      previous.emplace(*repository_, *base, *base_graph, std::nullopt, *engine_, *execution_);
    }
    const RecipeGraph nothing_known;
    FileKeeper keeper(*repository_, nothing_known, base ? &*base : nullptr, previous ? &*previous : nullptr, *engine_,
                      *execution_,
                      into == SquashInto::compressed_anchor ? WholeWeights::compressed : WholeWeights::plain);
    const bool led_through_gone = history_->at(target).uses(gone_);
    const std::shared_ptr<const Repository> not_owned(repository_, [](const Repository*) {});
    const Checkpoint files = checkpoint_of(not_owned, commit, *engine_, *execution_);
    std::vector<const FileIdentity*> lacking;
    std::uint64_t lacking_bytes = 0;
    for (const ManifestFile& file : commit.manifest.files) {
      const Digest& digest = file.identity.digest;
      const bool made = known.can_make(digest) && (into == SquashInto::delta || known.is_stored_whole(digest));
      if (file.content || (made && (!led_through_gone || is_made_by(known, file.identity)))) continue;
      lacking.push_back(&file.identity);
      lacking_bytes += file.identity.size_bytes;
    }
    // How small deltas come out shows only at the end.
    if (into == SquashInto::anchor) require_space(repository_->store(), lacking_bytes);
    for (const FileIdentity* file : lacking) {
      const CheckpointFile& source = *files.find(file->path);
      if (keeper.keep_bytes(source, source.open()) != file->digest) {
        throw Error(Fault::corrupt, file->path,
                    fmt::format("commit {} does not rebuild it as it was pushed", target.hex()),
                    "run wdelta verify REPO; nothing was given up");
      }
    }
    keeper.finish();
    stored_bytes_ += keeper.objects().stored_bytes();
    std::ranges::copy(keeper.objects().recipes(), std::back_inserter(added_));
  }

  /// Gives recipes to the commits that they were made for, to those that referred to a model for what is stored now,
  /// and to every commit that led through what is given up; proves that all can do without that.
  void publish(const std::set<Digest>& given_up, const std::vector<Digest>& targets) {
    std::optional<RecipeGraph> all;
    // Ancestors first: what is made for one is a way for those behind it.
    for (const Digest& id : history_->oldest_first()) {
      const HistoryCommit& commit = history_->at(id);
      if (given_up.contains(id)) continue;
      const bool wants_added = std::ranges::find(targets, id) != targets.end() || refers_to_added(commit);
      if (!commit.uses(gone_) && !wants_added) continue;
      if (!commit.first_lacking(graph_without_gone(commit))) {
        if (!added_.empty()) repository_->put_book(id, {added_, {}});
        continue;
      }
      // Books of others may know ways that its own do not: an anchor that was stored after the commit was pushed.
      if (!all) all = graph_of_all();
      if (commit.first_lacking(*all)) {
        // gc has taken its bytes long ago, and then it was named.
        if (commit.first_lacking(RecipeGraph::of(commit.recipes_without({})))) continue;
        // Made from a commit that is given up only now, and the way through its parents was given up earlier.
        std::optional<Digest> kept = commit.parent;
        while (kept && (given_up.contains(*kept) || history_->at(*kept).first_lacking(*all))) {
          kept = history_->at(*kept).parent;
        }
        keep(id, kept, SquashInto::delta);
        all = graph_of_all();
      }
      if (const FileIdentity* file = commit.first_lacking(*all)) {
        throw Error(Fault::internal, file->path, fmt::format("commit {} could not be made any more", id.hex()),
                    "nothing was given up");
      }
      repository_->put_book(id, {all->book_for(commit.digests(), k_recent_ancestors), {}});
    }
  }

  std::uint64_t stored_bytes() const { return stored_bytes_; }

 private:
  // Read, as what is given up may be the only other way.
  bool is_made_by(const RecipeGraph& recipes, const FileIdentity& file) {
    NoProgress unwatched;
    const Execution silent{execution_->threads, &unwatched, execution_->stop};
    try {
      VersionFinder finder(*repository_, recipes, *engine_, silent);
      write_version(finder.find(file), nullptr, silent, proofs_);
      return true;
    } catch (const Error& error) {
      if (error.fault() != Fault::corrupt) throw;
      execution_->progress->note(fmt::format("{}: {}: storing {} again", error.object(), error.what(), file.path));
      return false;
    }
  }

  RecipeGraph graph_without_gone(const HistoryCommit& commit) const {
    RecipeGraph graph;
    graph.add(commit.recipes_without(gone_));
    graph.add(added_);
    graph.settle();
    return graph;
  }

  RecipeGraph graph_of_all() const {
    RecipeGraph graph;
    graph.add(history_->recipes_without(gone_));
    graph.add(added_);
    graph.settle();
    return graph;
  }

  bool refers_to_added(const HistoryCommit& commit) const {
    return std::ranges::any_of(commit.recipes_without({}), [&](const Recipe& recipe) {
      return recipe.reference && std::ranges::find(added_, recipe.digest, &Recipe::digest) != added_.end();
    });
  }

  Repository* repository_;
  const History* history_;
  std::set<Digest> gone_;
  const Engine* engine_;
  const Execution* execution_;
  std::vector<Recipe> added_;
  OriginProofs proofs_;
  std::uint64_t stored_bytes_ = 0;
};

// The digests that are only in commits that were given up before us, but for those that a commit leads through and goes
// on leading through: it was pushed while they were given up.
std::set<Digest> gone_before(const History& history, const std::set<Digest>& given_up) {
  std::set<Digest> gone = history.files_only_of(given_up);
  for (const auto& [id, commit] : history.commits()) {
    if (given_up.contains(id) || !commit.uses(gone)) continue;
    const RecipeGraph all = RecipeGraph::of(commit.recipes_without({}));
    const RecipeGraph rest = RecipeGraph::of(commit.recipes_without(gone));
    std::map<Digest, const Recipe*> led_through;
    for (const FileIdentity& file : commit.lacking(rest)) all.collect(file.digest, led_through);
    for (const auto& [digest, recipe] : led_through) gone.erase(digest);
  }
  return gone;
}

// What is only in commits that are given up now, and what `gone_before` has.
std::set<Digest> gone_with(const History& history, const std::set<Digest>& before, const std::set<Digest>& now) {
  std::set<Digest> given_up = before;
  given_up.insert(now.begin(), now.end());
  std::set<Digest> gone = history.files_only_of(given_up);
  for (const Digest& digest : history.files_only_of(before)) gone.erase(digest);
  gone.merge(gone_before(history, before));
  return gone;
}

}  // namespace

SquashReport squash(Repository& repository, const std::optional<Digest>& from, const Digest& to, SquashInto into,
                    SquashMode mode, const Engine& engine, const Execution& execution) {
  execution.progress->begin("reading the history", 0);
  History history = History::read(repository, execution);
  const StoredObjects objects(repository.store());
  history.forget([&](const Recipe& recipe) { return !objects.have(recipe); });
  std::vector<Digest> path = history.between(from, to);
  std::ranges::reverse(path);
  SquashReport report;
  for (const Digest& id : path) {
    if (id == to || history.is_landmark(id)) {
      report.kept.push_back(id);
    } else if (!history.is_given_up(id)) {
      report.squashed.push_back(id);
    }
  }
  if (!from && into == SquashInto::delta) {
    throw Error(Fault::usage, to.hex(), "there is nothing before the first commit to make a delta from",
                "--anchor stores the files whole");
  }
  for (const std::optional<Digest>& end : {from, std::optional(to)}) {
    if (end && history.is_given_up(*end)) {
      throw Error(Fault::usage, end->hex(), "was squashed itself",
                  "begin and end at commits that stay; wdelta tag makes this one stay as long as gc has not taken it");
    }
  }
  if (mode == SquashMode::dry_run) return report;

  // What others gave up before us counts as given up.
  std::set<Digest> given_up_before;
  for (const auto& [id, commit] : history.commits()) {
    if (history.is_given_up(id)) given_up_before.insert(id);
  }
  const std::set<Digest> given_up_now(report.squashed.begin(), report.squashed.end());
  std::set<Digest> given_up = given_up_before;
  given_up.insert(given_up_now.begin(), given_up_now.end());
  Squash work(repository, history, from, gone_with(history, given_up_before, given_up_now), engine, execution);
  std::uint64_t total_bytes = 0;
  for (const Digest& id : report.kept) {
    for (const FileIdentity& file : history.at(id).files) total_bytes += file.size_bytes;
  }
  execution.progress->begin("squashing", total_bytes);
  std::optional<Digest> before = from;
  for (const Digest& id : report.kept) {
    const bool whole = id == to || !before;
    work.keep(id, before, whole ? into : SquashInto::delta);
    before = id;
  }
  work.publish(given_up, report.kept);
  repository.store().flush();
  // Last, so that whatever stops us before leaves every commit as it was.
  const std::string now = now_text();
  for (const Digest& id : report.squashed) repository.put_book(id, {{}, now});
  repository.store().flush();
  report.stored_bytes = work.stored_bytes();
  return report;
}

}  // namespace wdelta
