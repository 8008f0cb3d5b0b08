// SPDX-License-Identifier: Apache-2.0
#include "repo/push.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/moment.hpp"
#include "base/path.hpp"
#include "base/reader_digest.hpp"
#include "repo/file_keeper.hpp"
#include "repo/gc_plan.hpp"
#include "repo/previous_checkpoint.hpp"
#include "repo/pull_state.hpp"
#include "repo/stored_objects.hpp"
#include "store/store_space.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

// One value for each key, the last one given, in one order: what was said decides whether two commits are the same.
CommitDraft normalised(const CommitDraft& draft) {
  std::map<std::string, std::string> meta;
  for (const auto& [key, value] : draft.meta) meta[key] = value;
  return {draft.message, draft.author, draft.step, {meta.begin(), meta.end()}};
}

// The commit that a push builds on, and what is known of it.
struct Parent {
  RefState branch;
  std::optional<Commit> commit;
  RecipeGraph recipes;

  Parent(const Repository& repository, const std::string& branch_name, const Execution& execution)
      : branch(repository.refs().read_to_move(RefKind::branch, branch_name, execution)) {
    if (!branch.commit) return;
    commit = repository.commit(*branch.commit);
    recipes = repository.recipes(*commit);
  }

  /// Goes without what recipes name and is not there.
  void forget_lost(const Store& store) {
    const StoredObjects objects(store);
    recipes = recipes.without([&](const Recipe& recipe) { return !objects.have(recipe); },
                              [](const Digest&) { return true; });
  }
  /// The branch has no commit yet: begins it with this one.
  void begin_with(const HubBase& base) {
    commit = base.commit;
    recipes = RecipeGraph::of(base.book.recipes);
  }
};

// What the commit that is pushed again is made of, unless it is given up, or of a push that never ended: then gc may be
// about to take it.
void add_recipes_of(RecipeGraph& graph, const Repository& repository, const CommitSource& source) {
  if (source.repository_id != repository.id()) return;
  const auto plan = read_gc_plan(repository.store());
  if (plan && std::ranges::find(plan->keys, commit_key(source.commit)) != plan->keys.end()) return;
  std::vector<Recipe> recipes;
  for (const StoredBook& stored : repository.read_books(source.commit)) {
    if (stored.book.squashed) return;
    recipes.insert(recipes.end(), stored.book.recipes.begin(), stored.book.recipes.end());
  }
  graph.add(recipes);
  graph.settle();
}

// A commit that builds on what is lost could not be pulled. Returns whether what is lost is to be stored again: then
// `parent` goes without it. Whoever asks for all of it whole wants nothing to be relied on unseen.
bool forget_lost(Parent& parent, const Store& store, AnchorChoice anchor, const Execution& execution) {
  if (anchor != AnchorChoice::now) {
    const auto lost = find_lost(store, *parent.commit, parent.recipes, execution.stop);
    if (!lost) return false;
    const bool is_restored = anchor == AnchorChoice::automatic;
    execution.progress->note(fmt::format(
        "{}: is lost or cut short, and commit {} needs it: {}", *lost, parent.commit->id.hex().substr(0, 12),
        is_restored ? "what cannot be made any more is stored whole"
                    : "so does this one; wdelta push --repair --base DIR REPO restores it from a copy"));
    if (!is_restored) return false;
  }
  parent.forget_lost(store);
  return true;
}

bool is_same_commit(const Manifest& tip, const Manifest& next) {
  const auto same_file = [](const ManifestFile& a, const ManifestFile& b) {
    return a.identity == b.identity && a.executable == b.executable;
  };
  return tip.step == next.step && tip.meta == next.meta && std::ranges::equal(tip.files, next.files, same_file);
}

std::vector<Recipe> book_for(const Manifest& manifest, RecipeGraph graph, const std::vector<Recipe>& added) {
  graph.add(added);
  graph.settle();
  return graph.book_for(manifest.stored_digests(), k_recent_ancestors);
}

// The files that are not made of one object alone.
std::vector<const FileIdentity*> files_of_deltas(const Manifest& manifest, const RecipeGraph& graph) {
  std::vector<const FileIdentity*> files;
  for (const ManifestFile& file : manifest.files) {
    const Digest& digest = file.identity.digest;
    if (!file.content && !graph.is_stored_whole(digest)) files.push_back(&file.identity);
  }
  return files;
}

// An anchor pays when a reader that has nothing would fetch more in deltas than in whole files, or has to apply more of
// them than can be called quick. What all files of the commit are made of is fetched once: where shards were cut anew
// each of them is made of several of those before.
std::vector<const FileIdentity*> files_that_want_an_anchor(const Manifest& manifest, const RecipeGraph& graph) {
  const std::map<Digest, std::uint64_t> shares = graph.shares_of_cost(manifest.stored_digests());
  std::vector<const FileIdentity*> files = files_of_deltas(manifest, graph);
  std::erase_if(files, [&](const FileIdentity* file) {
    return graph.can_make(file->digest) && graph.chain_length(file->digest) < RecipeGraph::k_longest_chain &&
           shares.at(file->digest) / 2 <= file->size_bytes;
  });
  return files;
}

std::uint64_t put_anchor(Repository& repository, const Commit& commit, const RecipeBook& book,
                         const Checkpoint& checkpoint, const PushOptions& options, const Engine& engine,
                         const Execution& execution) {
  const RecipeGraph graph = RecipeGraph::of(book.recipes);
  const RecipeGraph nothing_known;
  FileKeeper keeper(repository, nothing_known, nullptr, nullptr, engine, execution, options.whole);
  const std::vector<const FileIdentity*> files = options.anchor == AnchorChoice::now
                                                     ? files_of_deltas(commit.manifest, graph)
                                                     : files_that_want_an_anchor(commit.manifest, graph);
  std::uint64_t total_bytes = 0;
  for (const FileIdentity* file : files) total_bytes += file->size_bytes;
  if (!files.empty()) {
    if (options.whole == WholeWeights::plain) require_space(repository.store(), total_bytes);
    execution.progress->begin("storing an anchor", total_bytes);
  }
  for (const FileIdentity* file : files) {
    const CheckpointFile& source = *checkpoint.find(file->path);
    if (keeper.keep_bytes(source, source.open()) != file->digest) {
      throw Error(Fault::local, file->path, "changed while an anchor was made of it", "the commit itself is safe");
    }
  }
  keeper.finish();
  const ObjectWriter& objects = keeper.objects();
  if (!objects.recipes().empty()) repository.put_book(commit.id, {objects.recipes(), {}});
  repository.store().flush();
  return objects.stored_bytes();
}

// Where the tag that the new commit is to have stands now. It must be free, or name the commit already.
RefState read_free_tag(const Repository& repository, const std::string& tag, const std::optional<Digest>& commit,
                       const Execution& execution) {
  const RefState state = repository.refs().read_to_move(RefKind::tag, tag, execution);
  if (state.commit && state.commit != commit) {
    throw Error(Fault::conflict, tag, "there is a tag of that name already",
                "wdelta tag REPO TAG REV --force moves it");
  }
  return state;
}

void put_tag(Repository& repository, const std::optional<std::string>& tag, const Digest& commit,
             const Execution& execution) {
  if (!tag) return;
  const RefState state = read_free_tag(repository, *tag, commit, execution);
  if (state.commit) return repository.refs().confirm(RefKind::tag, *tag, state, execution);
  repository.refs().move(RefKind::tag, *tag, state, commit, execution);
}

void note_forks(const Repository& repository, const std::string& branch, const Execution& execution) {
  for (const Fork& fork : repository.refs().forks(RefKind::branch, branch)) {
    execution.progress->note(
        fmt::format("branch {} has a fork: commit {} was pushed at the same time as another and is not in its history; "
                    "wdelta branch REPO NAME {} keeps it under a name",
                    branch, fork.commit.hex(), fork.commit.hex().substr(0, 12)));
  }
}

std::uint64_t weights_bytes(const Checkpoint& checkpoint) {
  std::uint64_t total = 0;
  for (const CheckpointFile& file : checkpoint.files()) total += is_weights(file.path) ? file.size_bytes : 0;
  return total;
}

/// Where this machine keeps the state of the branch, and the turn of one push from here.
struct Turn {
  fs::path state_path;
  FileLock lock;
};

// Waits for another push of this machine to the branch: what that one pushes is the previous checkpoint then, and lies
// here. State is a convenience: a service without a home, or a container whose disk is only to be read, pushes without.
std::optional<Turn> take_turn(const Repository& repository, const PushOptions& options, const Execution& execution) {
  constexpr std::string_view k_without =
      "pushes from this machine do not wait for each other, and the next one finds nothing to compare with here";
  if (options.state_directory.empty()) {
    execution.progress->note(fmt::format("neither WDELTA_STATE_DIR nor HOME is set: {}", k_without));
    return {};
  }
  try {
    fs::path path = push_state_path(options.state_directory, repository.id(), options.branch);
    make_directories(path.parent_path());
    FileLock lock(path.string() + ".lock", "waiting for another push to this branch", execution);
    return Turn{std::move(path), std::move(lock)};
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    execution.progress->note(fmt::format("{}: {}: {}", error.object(), error.what(), k_without));
    return {};
  }
}

// Where the next push from this machine finds what was pushed now.
void remember(const std::optional<Turn>& turn, const Commit& commit, const Checkpoint& checkpoint,
              const Execution& execution) try {
  if (!turn || !checkpoint.is_on_disk()) return;
  PushState state{commit.id, fs::absolute(checkpoint.name()), {}};
  for (const CheckpointFile& file : checkpoint.files()) {
    if (file.stamp) state.stamps[file.path] = *file.stamp;
  }
  save_push_state(turn->state_path, state);
} catch (const Error& error) {
  execution.progress->note(
      fmt::format("{}: {}: the next push will compare with the repository", error.object(), error.what()));
}

void require_header(const CheckpointFile& file) {
  const auto weights = file.open();
  try {
    SafetensorsHeader::read(*weights);
  } catch (const Error& error) {
    // Nobody is still writing what is in memory or in a commit.
    if (error.fault() != Fault::corrupt || !file.stamp || !is_cut_short(*weights)) throw;
    throw Error(Fault::local, error.object(), error.what(),
                "it may still be being written: --wait-stable S waits until it is done");
  }
}

}  // namespace

void check_push(const Checkpoint& checkpoint, const CommitDraft& draft, const PushOptions& options) {
  const auto require_name = [](const char* what, const std::string& name) {
    if (const char* reason = why_not_a_ref_name(name))
      throw Error(Fault::usage, name, fmt::format("{} name {}", what, reason));
  };
  const auto require_text = [](const char* what, const std::string& text) {
    if (!is_utf8(text)) throw Error(Fault::usage, what, "is not UTF-8");
  };
  require_name("branch", options.branch);
  if (options.tag) require_name("tag", *options.tag);
  require_text("message", draft.message);
  require_text("author", draft.author);
  for (const auto& [key, value] : draft.meta) require_text("meta", key + value);
  for (const CheckpointFile& file : checkpoint.files()) {
    if (is_weights(file.path)) require_header(file);
  }
}

PushReport push(Repository& repository, const Checkpoint& checkpoint, const CommitDraft& given,
                const PushOptions& options, const Engine& engine, const Execution& execution) {
  check_push(checkpoint, given, options);
  if (checkpoint.is_on_disk()) require_no_pull(checkpoint);  // changes from here on are noticed
  const CommitDraft draft = normalised(given);
  const std::optional<Turn> turn = take_turn(repository, options, execution);

  PushReport report;
  Parent parent(repository, options.branch, execution);
  note_forks(repository, options.branch, execution);
  if (options.tag) read_free_tag(repository, *options.tag, parent.branch.commit, execution);
  FilesAtHand at_hand;
  if (options.base && parent.commit) {
    require_begins_with(repository, *parent.commit, options.branch, options.base->model);
  } else if (options.base) {
    HubBase base = bring_base(repository, *options.base, execution);
    parent.begin_with(base);
    at_hand = std::move(base.at_hand);
    report.base = base.report;
  }
  const bool restores = parent.branch.commit && forget_lost(parent, repository.store(), options.anchor, execution);
  if (options.source) add_recipes_of(parent.recipes, repository, *options.source);
  if (options.at_hand && parent.commit && options.at_hand->commit == parent.commit->id)
    at_hand = options.at_hand->files;
  std::optional<PreviousCheckpoint> previous;
  if (parent.commit) {
    previous.emplace(repository, *parent.commit, parent.recipes,
                     turn ? load_push_state(turn->state_path) : std::nullopt, engine, execution, std::move(at_hand));
    report.parent = parent.commit->id;
    report.compared_with_repository = previous->is_of_repository();
    if (report.compared_with_repository && checkpoint.is_on_disk()) {
      execution.progress->note(
          "the previous checkpoint is not where it was pushed from, or was changed: comparing with the repository");
    }
  }

  Commit commit;
  Manifest& manifest = commit.manifest;
  manifest = {report.parent, now_text(), draft.author, draft.message, draft.step, draft.meta, {}, {}, {}};
  for (const CheckpointFile& file : checkpoint.files()) report.checkpoint_bytes += file.size_bytes;
  // How small deltas and compressed files come out shows only at the end; weights without a commit before are whole.
  if (!parent.commit && options.whole == WholeWeights::plain)
    require_space(repository.store(), weights_bytes(checkpoint));
  execution.progress->begin("pushing", report.checkpoint_bytes);
  FileKeeper keeper(repository, parent.recipes, parent.commit ? &*parent.commit : nullptr,
                    previous ? &*previous : nullptr, engine, execution, options.whole);
  manifest.files = keeper.keep(checkpoint.files());
  keeper.finish();
  execution.check_stop();
  checkpoint.check_unchanged();
  report.file_count = manifest.files.size();
  report.stored_bytes = keeper.objects().stored_bytes();
  report.kept = keeper.kept();
  if (parent.commit && !report.base && is_same_commit(parent.commit->manifest, manifest)) {
    report.id = parent.commit->id;
    report.parent = parent.commit->manifest.parent;
    repository.refs().confirm(RefKind::branch, options.branch, parent.branch, execution);
    if (restores) {
      const std::vector<Recipe>& added = keeper.objects().recipes();  // of what was lost
      if (!added.empty()) repository.put_book(report.id, {added, {}});
      const RecipeBook book{book_for(manifest, parent.recipes, added), {}};
      report.anchor_bytes = put_anchor(repository, *parent.commit, book, checkpoint, options, engine, execution);
    }
    put_tag(repository, options.tag, report.id, execution);
    remember(turn, *parent.commit, checkpoint, execution);
    return report;
  }

  if (parent.commit) manifest.ancestors = ancestors_of_child(parent.commit->id, parent.commit->manifest);
  const RecipeBook book{book_for(manifest, parent.recipes, keeper.objects().recipes()), {}};
  const BookBytes book_bytes = bytes_of(book);
  manifest.recipes = book_bytes.digest();
  const std::string text = to_text(manifest);
  commit.id = report.id = blake3(text);
  if (options.tag) read_free_tag(repository, *options.tag, commit.id, execution);
  repository.put_commit(commit.id, text, book_bytes);
  repository.store().flush();
  repository.refs().move(RefKind::branch, options.branch, parent.branch, commit.id, execution);
  report.created = true;
  remember(turn, commit, checkpoint, execution);
  // From here on the commit is there: whoever is told that something failed is told that, too.
  const auto in_spite_of = [&](const Error& error) {
    return Error(error.fault(), error.object(), error.what(),
                 fmt::format("commit {} was made all the same, and is on branch {}", commit.id.hex(), options.branch));
  };
  try {
    put_tag(repository, options.tag, commit.id, execution);
  } catch (const Error& error) {
    throw in_spite_of(error);
  }
  if (options.anchor != AnchorChoice::never) {
    try {
      report.anchor_bytes = put_anchor(repository, commit, book, checkpoint, options, engine, execution);
    } catch (const Error& error) {
      // It only makes the commit cheaper to fetch.
      if (options.anchor == AnchorChoice::now || error.fault() == Fault::interrupted) throw in_spite_of(error);
      execution.progress->note(fmt::format("no anchor was stored: {}: {}", error.object(), error.what()));
    }
  }
  return report;
}

}  // namespace wdelta
