// SPDX-License-Identifier: Apache-2.0
#include "repo/gc.hpp"

#include "base/error.hpp"
#include "base/moment.hpp"
#include "repo/gc_plan.hpp"
#include "repo/history.hpp"
#include "repo/stored_objects.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <unordered_set>
#include <utility>

namespace wdelta {

namespace {

constexpr const char* k_clock_key = "gc/clock";

// What time it is where the store is: clocks of machines that share one differ.
std::int64_t clock_of(Store& store, const Execution& execution) {
  constexpr int k_most_looks = 10;  // a list may lag behind what was written
  for (int look = 0; look < k_most_looks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    execution.check_stop();
    store.put(k_clock_key, "");  // each time: another gc may have removed it
    for (const Store::Listed& listed : store.list("gc/")) {
      if (listed.key == k_clock_key) return listed.written_ms / 1000;
    }
  }
  throw Error(Fault::network, k_clock_key, "the store does not list it although it was just written");
}

// Commits that no entry of any branch or tag, old ones included, leads to: pushes that never came to their end.
std::set<Digest> unreachable(const History& history, const std::vector<NamedCommit>& ever_named) {
  std::set<Digest> left;
  for (const auto& [id, commit] : history.commits()) left.insert(id);
  for (const auto& [named, until_ms] : ever_named) {
    // Whatever lies behind it would be taken for garbage.
    if (!history.commits().contains(named)) {
      throw Error(Fault::corrupt, commit_key(named), "is missing, a branch or tag names or named it",
                  "nothing was removed; run wdelta verify REPO");
    }
    std::optional<Digest> next = named;
    while (next && left.erase(*next) > 0) next = history.at(*next).parent;
  }
  return left;
}

// A commit that lost books is damaged: the objects that these need would be taken for garbage, and could not be found
// again by who has a copy of the book. What squash gave up may lack recipes.
void require_recipes(const History& history, const std::set<Digest>& unfinished) {
  for (const auto& [id, commit] : history.commits()) {
    if (unfinished.contains(id) || commit.is_squashed()) continue;
    if (const FileIdentity* file = commit.first_lacking(RecipeGraph::of(commit.recipes_without({})))) {
      throw Error(Fault::corrupt, commit_key(id),
                  fmt::format("no recipe makes {:?} ({})", file->path, file->digest.hex()),
                  "nothing was removed; run wdelta verify REPO");
    }
  }
}

std::vector<NamedCommit> ever_named_in(const Repository& repository) {
  std::vector<NamedCommit> named = repository.refs().ever_named(RefKind::branch);
  std::ranges::copy(repository.refs().ever_named(RefKind::tag), std::back_inserter(named));
  return named;
}

// What becomes of books once some commits are given up.
struct BookChanges {
  std::map<Digest, RecipeBook> new_books;  // by commit: each in place of all that it has
  std::set<std::string> old_keys;          // of books that go
  std::vector<Digest> given_up;            // commits whose books go
};

// The recipes of commits that were squashed long enough ago go, and those that led through them from books of others.
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

// A commit that has got a name since the history was read is wanted: its books stay.
void spare_named(BookChanges& changes, const Repository& repository) {
  std::set<Digest> named;
  for (const RefKind kind : {RefKind::branch, RefKind::tag}) {
    for (const auto& [name, ref] : repository.refs().list(kind)) named.insert(*ref.commit);
  }
  std::erase_if(changes.given_up, [&](const Digest& id) { return named.contains(id); });
  std::erase_if(changes.old_keys, [&](const std::string& key) {
    const auto commit = commit_of_book(key);
    return commit && named.contains(*commit) && !changes.new_books.contains(*commit);
  });
}

void carry_out(BookChanges& changes, Repository& repository) {
  for (const auto& [id, book] : changes.new_books) changes.old_keys.erase(repository.put_book(id, book));
  if (!changes.given_up.empty()) spare_named(changes, repository);
  // Those of commits that are given up last: where they are gone all else is done.
  std::vector<std::string> keys(changes.old_keys.begin(), changes.old_keys.end());
  std::stable_partition(keys.begin(), keys.end(), [&](const std::string& key) {
    const auto commit = commit_of_book(key);
    return !commit || std::ranges::find(changes.given_up, *commit) == changes.given_up.end();
  });
  repository.store().flush();
  repository.store().remove_all(keys);
}

// Those that squash gave up, and whose names were taken away, if they had any, a grace time ago or longer.
std::set<Digest> expired(const History& history, const std::vector<NamedCommit>& ever_named, std::int64_t now_s,
                         std::chrono::seconds grace) {
  std::map<Digest, std::int64_t> named_until_ms;
  for (const auto& [id, until_ms] : ever_named) {
    if (until_ms) named_until_ms[id] = std::max(named_until_ms[id], *until_ms);
  }
  std::set<Digest> commits;
  for (const auto& [id, commit] : history.commits()) {
    if (!history.is_given_up(id)) continue;
    for (const HistoryBook& book : commit.books) {
      const std::int64_t since_ms = std::max(book.written_ms, named_until_ms[id]);
      if (book.squashed && since_ms / 1000 + grace.count() <= now_s) commits.insert(id);
    }
  }
  return commits;
}

// Keys that nothing needs once books have changed so, with what is known of them.
std::map<std::string, Store::Listed> unneeded(const Repository& repository, const History& history,
                                              const std::set<Digest>& unfinished, const BookChanges& changes) {
  std::set<std::string> needed;
  const auto need_object_of = [&](const Recipe& recipe) {
    if (!recipe.reference) needed.insert(object_key(recipe.bytes.object));
  };
  std::unordered_set<const Recipe*> seen;
  for (const auto& [id, commit] : history.commits()) {
    if (unfinished.contains(id)) continue;
    for (const HistoryBook& book : commit.books) {
      if (changes.old_keys.contains(book.key)) continue;
      for (const Recipe* recipe : book.recipes) {
        if (seen.insert(recipe).second) need_object_of(*recipe);
      }
    }
    const auto found = changes.new_books.find(id);
    if (found != changes.new_books.end()) std::ranges::for_each(found->second.recipes, need_object_of);
  }
  std::map<std::string, Store::Listed> keys;
  for (const char* folder : {"objects/", "commits/", "recipes/"}) {
    for (const Store::Listed& listed : repository.store().list(folder)) {
      if (folder == std::string_view("objects/")) {
        if (is_object_key(listed.key) && !needed.contains(listed.key)) keys.emplace(listed.key, listed);
        continue;
      }
      const std::string rest = listed.key.substr(std::string_view(folder).size());
      const auto id = Digest::parse(rest.substr(0, rest.find_first_of("/.")));
      // A book without a manifest is of a push that was killed between the two.
      if (id && (unfinished.contains(*id) || !history.commits().contains(*id))) keys.emplace(listed.key, listed);
    }
  }
  return keys;
}

}  // namespace

GcReport collect_garbage(Repository& repository, std::chrono::seconds grace, GcMode mode, const Execution& execution) {
  Store& store = repository.store();
  const std::int64_t now_s = mode == GcMode::dry_run ? seconds_of(now_text()).value() : clock_of(store, execution);
  GcReport report;
  if (mode == GcMode::carry_out) store.bring_back();  // first: it may be what a commit needs
  execution.progress->begin("reading the history", 0);
  // In this order: what an entry names was there before it, so that a push meanwhile is no damage.
  std::optional<GcPlan> plan = read_gc_plan(store);
  const std::vector<NamedCommit> ever_named = ever_named_in(repository);
  History history = History::read(repository, execution);
  const std::set<Digest> unfinished = unreachable(history, ever_named);
  require_recipes(history, unfinished);
  BookChanges changes = changes_after(history, expired(history, ever_named, now_s, grace), store);
  if (mode == GcMode::carry_out) {
    const bool any = !changes.old_keys.empty();
    carry_out(changes, repository);
    if (any) history = History::read(repository, execution);
  }
  report.given_up = std::exchange(changes.given_up, {});
  if (mode == GcMode::carry_out) changes = {};

  auto keys = unneeded(repository, history, unfinished, changes);
  if (grace.count() == 0) {
    plan = GcPlan{now_s + 1, {}};  // whatever is there now
    for (const auto& [key, listed] : keys) plan->keys.push_back(key);
  }
  if (plan && (grace.count() == 0 || plan->time_s + grace.count() <= now_s)) {
    std::vector<std::string> old;
    for (const std::string& key : plan->keys) {
      const auto found = keys.find(key);
      // Needed again, gone, or put again by a push whose book is not there yet.
      if (found != keys.end() && found->second.written_ms < plan->time_s * 1000) old.push_back(key);
    }
    std::ranges::sort(old);
    old.erase(std::unique(old.begin(), old.end()), old.end());  // a plan is a document from outside
    // In pieces, so that it can be stopped.
    constexpr std::size_t k_piece = 1000;
    for (std::size_t begin = 0; begin < old.size(); begin += k_piece) {
      execution.check_stop();
      // A push took it away: it puts something that the plan names.
      if (grace.count() != 0 && mode == GcMode::carry_out && read_gc_plan(store) != plan) break;
      const std::span piece = std::span(old).subspan(begin, std::min(k_piece, old.size() - begin));
      const std::vector<std::string> removed = mode == GcMode::dry_run ? std::vector(piece.begin(), piece.end())
                                                                       : store.remove_all_older(piece, plan->time_s);
      for (const std::string& key : removed) {
        const auto found = keys.find(key);
        ++report.removed;
        report.removed_bytes += found->second.size_bytes;
        keys.erase(found);
      }
    }
    if (mode == GcMode::carry_out) store.remove(k_gc_plan_key);
    plan.reset();
  }
  for (const auto& [key, listed] : keys) {
    ++report.planned;
    report.planned_bytes += listed.size_bytes;
  }
  if (mode == GcMode::dry_run) return report;
  store.remove_leftovers(now_s - grace.count(), is_object_key);
  if (!plan && !keys.empty()) {
    GcPlan next{now_s, {}};
    for (const auto& [key, listed] : keys) next.keys.push_back(key);
    store.put(k_gc_plan_key, to_text(next));
  }
  store.flush();
  store.remove(k_clock_key);
  return report;
}

}  // namespace wdelta
