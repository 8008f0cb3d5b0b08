// SPDX-License-Identifier: Apache-2.0
#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/file_turns.hpp"
#include "base/reader_digest.hpp"
#include "base/space.hpp"
#include "delta/place_turns.hpp"
#include "repo/entry_check.hpp"
#include "repo/gc_plan.hpp"
#include "repo/ref_entry.hpp"
#include "repo/reference_check.hpp"
#include "repo/verify.hpp"
#include "repo/version_finder.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

constexpr const char* k_restore_hint = "wdelta push --repair --base DIR REPO restores what is lost from a copy";

// Objects that stay open once they were read: each takes a file or two of those that a process may have open. What is
// smaller takes no more than a request or two to fetch again.
constexpr std::size_t k_most_kept_objects = 128;
constexpr std::uint64_t k_least_kept_bytes = std::uint64_t{1} << 20;

// Entries of branches and tags that are read before they are checked, for each of those that are read at a time.
constexpr std::size_t k_entries_at_once = 64;

// Whether the store spools what is read of it, and has the room for all of its objects twice: once kept, and once more
// while they are read.
bool has_room_to_keep(const Store& store, std::uint64_t objects_bytes) {
  const auto spool = store.spooling_path();
  return spool && objects_bytes <= free_bytes_at(*spool).value_or(0) / 2;
}

Digest digest_of_list(std::span<const CommitSummary> commits) {
  std::string text;
  for (const CommitSummary& commit : commits) text += fmt::format("{} {}\n", commit.distance, in_words(commit));
  return blake3(text);
}

class RepositoryCheck {
 public:
  RepositoryCheck(const Repository& repository, VerifyDepth depth, const Engine& engine, const Execution& execution)
      : repository_(&repository), depth_(depth), engine_(&engine), execution_(&execution) {}

  VerifyReport run() {
    try {
      look();
    } catch (const Error& error) {
      // All else lies behind the same network. What was found must not be lost over it.
      if (error.fault() != Fault::network) throw;
      report_.add(error.object(), error);
    }
    return std::move(report_);
  }

 private:
  void look() {
    check_objects();
    for (const RefKind kind : {RefKind::branch, RefKind::tag}) check_refs(kind);
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
      for (std::size_t i = 0; i < piece.size(); ++i) check(piece[i], [&] { check_commit(piece[i].key, read[i]); });
    }
    check_ever_named();
    check_ancestors();
    check_wanted();
    check_books();
    for (const Store::Listed& listed : list("gc/")) {
      if (listed.key == k_gc_plan_key) check(listed, [&] { read_gc_plan(repository_->store()); });
    }
    check_references();
    // What opened the repository is there: a list without it has told nothing of what else is.
    if (commits.empty() && std::ranges::none_of(list(""), [](const auto& each) { return each.key == k_settings_key; }))
      report_.findings.push_back({k_settings_key, "is there, and the store does not list it", {}});
  }

  std::vector<Store::Listed> list(const std::string& prefix) const { return repository_->store().list(prefix); }

  void offer_repair() {
    if (report_.hint.empty()) report_.hint = k_restore_hint;
  }

  template <typename Body>
  void check(const Store::Listed& listed, Body body) {
    ++report_.checked;
    report_.checked_bytes += listed.size_bytes;
    execution_->check_stop();
    try {
      body();
    } catch (const Error& error) {
      if (error.fault() == Fault::network) throw;
      report_.add(listed.key, error);
    }
  }

  /// What an object turned out to be; neither digest nor failure where it lies behind a network that failed.
  struct Found {
    std::optional<Digest> digest;
    std::exception_ptr failure;
    std::shared_ptr<const ByteReader> kept;  // else null
  };

  std::vector<Found> read(const std::vector<Store::Listed>& objects) {
    std::vector<std::uint64_t> sizes_bytes;
    std::uint64_t total_bytes = 0;
    for (const Store::Listed& listed : objects) {
      sizes_bytes.push_back(listed.size_bytes);
      total_bytes += listed.size_bytes;
    }
    // So that commits are rebuilt without fetching them again.
    const bool keeps = depth_ == VerifyDepth::deep && has_room_to_keep(repository_->store(), total_bytes);
    std::atomic<std::size_t> kept_count = 0;
    std::vector<Found> found(objects.size());
    std::atomic<bool> is_cut_off = false;
    for_each_file(sizes_bytes, *execution_, [&](std::size_t index, const Execution& on) {
      if (is_cut_off) return;
      try {
        const std::string& key = objects[index].key;
        const auto reader = repository_->store().get(key);
        if (!reader) return;  // gc has taken it since; who needs it all the same will miss it
        found[index].digest = digest_of(*reader, on);
        if (keeps && sizes_bytes[index] >= k_least_kept_bytes && kept_count++ < k_most_kept_objects)
          found[index].kept = reader;
      } catch (const Error& error) {
        if (error.fault() == Fault::interrupted) throw;
        if (error.fault() != Fault::network) {
          found[index].failure = std::current_exception();
        } else if (!is_cut_off.exchange(true)) {
          cut_off_ = std::current_exception();
        }
      }
    });
    return found;
  }

  void check_objects() {
    std::uint64_t total = 0;
    const auto objects = list("objects/");
    for (const Store::Listed& listed : objects) total += listed.size_bytes;
    execution_->progress->begin("verifying objects", depth_ == VerifyDepth::quick ? 0 : total);
    const std::vector<Found> found = depth_ == VerifyDepth::quick ? std::vector<Found>() : read(objects);
    for (std::size_t i = 0; i < objects.size(); ++i) {
      const Store::Listed& listed = objects[i];
      if (depth_ != VerifyDepth::quick && !found[i].digest && !found[i].failure) continue;
      check(listed, [&] {
        const std::string name = fs::path(listed.key).filename().string();
        const auto expected = object_digest(name);
        if (!expected || object_key(name) != listed.key)
          throw Error(Fault::corrupt, listed.key, "has no name of an object");
        object_sizes_[name] = listed.size_bytes;
        if (depth_ == VerifyDepth::quick) return;
        if (found[i].kept) kept_objects_.emplace(name, found[i].kept);
        if (found[i].failure) std::rethrow_exception(found[i].failure);
        if (found[i].digest == expected) return;
        report_.hint = k_damaged_hint;
        throw Error(Fault::corrupt, listed.key, fmt::format("its bytes have digest {}", found[i].digest->hex()));
      });
    }
    if (cut_off_) std::rethrow_exception(cut_off_);
  }

  void check_refs(RefKind kind) {
    const Refs refs = repository_->refs();
    const char* word = kind == RefKind::branch ? "branch" : "tag";
    EntryCheck entries(refs);
    const auto listed = list(ref_folder(kind));
    const std::size_t most = k_entries_at_once * repository_->store().reads_at_once();
    for (std::size_t begin = 0; begin < listed.size(); begin += most) {
      const std::span piece = std::span(listed).subspan(begin, std::min(most, listed.size() - begin));
      std::vector<ReadEntry> read(piece.size());
      for_each_read(repository_->store(), piece.size(), execution_->stop,
                    [&](std::size_t i) { read[i] = read_entry(piece[i].key); });
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const std::string& key = piece[i].key;
        check(piece[i], [&] { ever_named_.emplace(entries.check(key, [&] { return read[i].get(); }), key); });
      }
    }
    try {
      const auto current = refs.list(kind);
      for (const auto& [name, ref] : current) names_.emplace(*ref.commit, fmt::format("{} {}", word, name));
      for (const auto& [name, ref] : current) named_.push_back({name, *ref.commit});
      for (const Fork& fork : refs.forks(kind)) {
        named_.push_back(fork);
        execution_->progress->note(
            fmt::format("{} {} has a fork: commit {} is not in its history", word, fork.name, fork.commit.hex()));
      }
    } catch (const Error& error) {
      if (error.fault() == Fault::network) throw;
      report_.add(error.object(), error);
    }
  }

  /// An entry, or why it cannot be had.
  struct ReadEntry {
    std::optional<RefEntry> entry;
    std::exception_ptr failure;

    const RefEntry& get() const {
      if (failure) std::rethrow_exception(failure);
      return *entry;
    }
  };

  ReadEntry read_entry(const std::string& key) const try {
    return {read_ref_entry(repository_->store(), key), nullptr};
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    return {std::nullopt, std::current_exception()};
  }

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
        offer_repair();
        throw Error(Fault::corrupt, key, what);
      }
      taken_.emplace(commit.id, what);
    }
    std::map<Digest, Recipe> needed;
    for (const ManifestFile& file : commit.manifest.files) {
      if (!file.content && graph.can_make(file.identity.digest)) graph.collect(file.identity.digest, needed);
    }
    for (const auto& [digest, recipe] : needed) {
      const auto lost = what_is_lost(recipe);
      if (!lost) continue;
      if (graph.squashed()) {  // as what gc takes from it
        taken_.emplace(commit.id, *lost);
        return;
      }
      offer_repair();
      throw Error(Fault::corrupt, key, *lost);
    }
    if (depth_ == VerifyDepth::deep) rebuild(commit, graph);
  }

  // Log, REV~N and step:N go by what a manifest says of its ancestors. When all have been read: keys are in no order of
  // time. Where the parent is missing that was found, or it was pushed since commits were listed.
  void check_ancestors() {
    for (const auto& [id, lineage] : lineages_) {
      if (!lineage.parent) continue;
      const auto parent = lineages_.find(*lineage.parent);
      if (parent == lineages_.end() || parent->second.of_child == lineage.ancestors) continue;
      try {
        say_what_differs(id, parent->first);
      } catch (const Error& error) {
        if (error.fault() == Fault::network) throw;
        report_.add(commit_key(id), error);
      }
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
    for (const auto& [name, commit] : named_) {
      try {
        require_commit(name, commit);
      } catch (const Error& error) {
        if (error.fault() == Fault::network) throw;
        report_.add(error.object(), error);
      }
    }
  }

  // Those that names stood for before stay, whatever they stand for now.
  void check_ever_named() {
    for (const auto& [id, key] : ever_named_) {
      if (names_.contains(id)) continue;
      try {
        require_commit(key, id);
      } catch (const Error& error) {
        if (error.fault() == Fault::network) throw;
        report_.add(key, error);
      }
    }
  }

  // Of commits that were given up and whose bytes gc took, those that something names now. At the end, when all
  // children are known.
  void check_wanted() {
    for (const auto& [id, what] : taken_) {
      const auto name = names_.find(id);
      if (name == names_.end() && child_counts_[id] < 2) {
        ++report_.taken_count;
        continue;
      }
      const std::string why =
          name == names_.end() ? "several commits have it for their parent" : name->second + " names it";
      report_.findings.push_back({commit_key(id), fmt::format("{}, and {}", why, what), {}});
      offer_repair();
    }
  }

  // Those of commits that are whole were read with them. Others are of damaged ones, or of pushes that have not come to
  // their end, or never will.
  void check_books() {
    for (const Store::Listed& listed : list("recipes/")) {
      const auto commit = commit_of_book(listed.key);
      if (commit && with_books_read_.contains(*commit)) continue;
      check(listed, [&] {
        if (!commit) throw Error(Fault::corrupt, listed.key, "has no name of a recipe book");
        repository_->read_books(*commit, {&listed, 1});
      });
    }
  }

  // Of a commit that was pushed since objects were listed, an object may not be among those.
  bool look_again(const std::string& name) {
    const std::string key = object_key(name);
    const auto reader = repository_->store().get(key);
    if (!reader) return false;
    check({key, reader->size_bytes(), 0}, [&] {
      object_sizes_[name] = reader->size_bytes();
      if (depth_ == VerifyDepth::quick) return;
      const Digest digest = digest_of(*reader, *execution_);
      if (digest == object_digest(name)) return;
      report_.hint = k_damaged_hint;
      throw Error(Fault::corrupt, key, fmt::format("its bytes have digest {}", digest.hex()));
    });
    return true;
  }

  /// What a recipe needs and is not there.
  std::optional<std::string> what_is_lost(const Recipe& recipe) {
    if (recipe.reference) {
      references_.push_back(recipe);
      return {};
    }
    auto object = object_sizes_.find(recipe.bytes.object);
    if (object == object_sizes_.end() && look_again(recipe.bytes.object))
      object = object_sizes_.find(recipe.bytes.object);
    if (object == object_sizes_.end()) return fmt::format("object {} is missing", recipe.bytes.object);
    if (recipe.bytes.fits_in(object->second)) return {};
    return fmt::format("object {} is too short for a recipe", recipe.bytes.object);
  }

  // At the end, so that it takes few requests however many commits begin with one model.
  void check_references() {
    execution_->progress->begin("looking at models on the Hub", 0);
    std::set<std::string> names;
    for (const Recipe& recipe : references_) names.insert(recipe.reference->name());
    report_.checked += names.size();
    for (const LostReference& lost : find_lost_references(*repository_, references_, *execution_)) {
      report_.findings.push_back({lost.recipe.reference->name(), lost.what, {}});
      offer_repair();
    }
  }

  // Each file once, however many commits have it. What the commit before was made from stays open meanwhile: most
  // commits begin with the same large files, and these need not be fetched again for each.
  void rebuild(const Commit& commit, const RecipeGraph& graph) {
    auto next = std::make_unique<Rebuilding>(*repository_, graph, *engine_, *execution_);
    for (const auto& [object, reader] : kept_objects_) next->finder.add_open(object, reader);
    std::set<Digest> digests;
    std::vector<FileVersion> versions;
    std::vector<std::uint64_t> sizes_bytes;
    for (const ManifestFile& file : commit.manifest.files) {
      const FileIdentity& identity = file.identity;
      if (file.content || !graph.can_make(identity.digest) || rebuilt_.contains(identity.digest)) continue;
      if (!digests.insert(identity.digest).second) continue;
      versions.push_back(next->finder.find(identity));
      sizes_bytes.push_back(identity.size_bytes);
    }
    if (versions.empty()) return;
    for_each_place(sizes_bytes, *engine_, *execution_, [&](std::size_t index, const Execution& on) {
      write_version(versions[index], nullptr, on, proofs_);
    });
    rebuilt_.merge(digests);
    for (const std::uint64_t size_bytes : sizes_bytes) report_.checked_bytes += size_bytes;
    last_ = std::move(next);
  }

  struct Rebuilding {
    Rebuilding(const Repository& repository, RecipeGraph recipes, const Engine& engine, const Execution& execution)
        : graph(std::move(recipes)), finder(repository, graph, engine, execution) {}
    RecipeGraph graph;
    VersionFinder finder;
  };

  /// What a commit says of those before it, and what its children must say: as digests, since there may be many.
  struct Lineage {
    std::optional<Digest> parent;
    Digest ancestors;
    Digest of_child;
  };

  const Repository* repository_;
  VerifyDepth depth_;
  const Engine* engine_;
  const Execution* execution_;
  VerifyReport report_;
  std::exception_ptr cut_off_;  // what the network failed with
  std::map<std::string, std::uint64_t> object_sizes_;
  std::map<std::string, std::shared_ptr<const ByteReader>> kept_objects_;
  std::map<Digest, std::string> names_;       // of the branches and tags that name it, the first
  std::vector<Fork> named_;                   // what branches, tags and forks stand for
  std::map<Digest, std::string> ever_named_;  // by entries, old ones too: the first of these
  std::set<std::string> listed_commits_;      // their keys
  std::map<Digest, std::vector<Store::Listed>> listed_books_;
  std::set<Digest> with_books_read_;            // commits, those included of which a book is damaged
  std::map<Digest, Lineage> lineages_;          // of commits whose manifest could be read
  std::map<Digest, std::size_t> child_counts_;  // by parent
  std::map<Digest, std::string> taken_;         // commits that were given up, and what they lack
  std::set<Digest> rebuilt_;
  OriginProofs proofs_;
  std::vector<Recipe> references_;
  std::unique_ptr<Rebuilding> last_;
};

}  // namespace

VerifyReport verify_repository(const Repository& repository, VerifyDepth depth, const Engine& engine,
                               const Execution& execution) {
  return RepositoryCheck(repository, depth, engine, execution).run();
}

}  // namespace wdelta
