// SPDX-License-Identifier: Apache-2.0
#include "repo/gc.hpp"

#include "base/error.hpp"
#include "base/moment.hpp"
#include "repo/gc_plan.hpp"
#include "repo/given_up_books.hpp"
#include "repo/history.hpp"

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

constexpr std::string_view k_clock_prefix = "gc/clock";

// What time it is where the store is: clocks of machines that share one differ.
std::int64_t clock_of(Store& store, const Execution& execution) {
  constexpr int k_most_looks = 10;  // a list may lag behind what was written
  // Of a name of its own: another gc may have been killed, and left its time.
  const std::string key = fmt::format("{}-{}", k_clock_prefix, random_hex(16));
  for (int look = 0; look < k_most_looks; ++look) {
    if (look > 0) std::this_thread::sleep_for(std::chrono::seconds(1));
    execution.check_stop();
    store.put(key, "");  // each time: another gc may have removed it
    for (const Store::Listed& listed : store.list("gc/")) {
      if (listed.key == key) return listed.written_ms / 1000;
    }
  }
  throw Error(Fault::network, key, "the store does not list it although it was just written");
}

void remove_clocks(Store& store) {
  for (const Store::Listed& listed : store.list("gc/")) {
    if (listed.key.starts_with(k_clock_prefix)) store.remove(listed.key);
  }
}

// Since when there is a plan, for everybody who begins to push, rounded up: gc read what it is made of before.
std::optional<std::int64_t> plan_written_s(const Store& store) {
  for (const Store::Listed& listed : store.list("gc/")) {
    if (listed.key == k_gc_plan_key) return (listed.written_ms + 999) / 1000;
  }
  return std::nullopt;
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
      const auto id = folder == std::string_view("commits/") ? commit_of_key(listed.key) : commit_of_book(listed.key);
      // A book without a manifest is of a push that was killed between the two.
      if (id && (unfinished.contains(*id) || !history.commits().contains(*id))) keys.emplace(listed.key, listed);
    }
  }
  return keys;
}

// In a directory, where that costs nothing, looks before each key whether there is a plan still.
std::vector<std::string> remove_planned(Store& store, const std::vector<std::string>& keys, std::int64_t time_s) {
  if (store.is_remote()) return store.remove_all_older(keys, time_s);
  const bool is_by_plan = store.get(k_gc_plan_key) != nullptr;  // not with a grace time of 0
  std::vector<std::string> removed;
  for (const std::string& key : keys) {
    if (is_by_plan && store.get(k_gc_plan_key) == nullptr) break;
    if (store.remove_older(key, time_s)) removed.push_back(key);
  }
  return removed;
}

// The keys in pieces to be removed one behind the other, so that it can be stopped in between: no commit goes before
// those that have it for their parent, nor anything of one that does not go itself. (What push --base has made of a
// model is the parent of what it pushes, and that has its objects and its book before it is there: a plan of such a
// moment does not know all of it.)
std::vector<std::vector<std::string>> in_pieces(const std::set<std::string>& keys, const History& history,
                                                const std::set<Digest>& unfinished) {
  std::map<Digest, std::size_t> generations;  // of commits that go, behind each
  std::set<Digest> kept;
  std::set<std::string> kept_keys;
  const std::vector<Digest> oldest_first = history.oldest_first();
  for (auto id = oldest_first.rbegin(); id != oldest_first.rend(); ++id) {
    if (!unfinished.contains(*id)) continue;
    const HistoryCommit& commit = history.at(*id);
    if (!keys.contains(commit_key(*id))) kept.insert(*id);
    if (commit.parent) generations[*commit.parent] = std::max(generations[*commit.parent], generations[*id] + 1);
    if (!kept.contains(*id)) continue;
    if (commit.parent) kept.insert(*commit.parent);
    for (const HistoryBook& book : commit.books) {
      for (const Recipe* recipe : book.recipes) {
        if (!recipe->reference) kept_keys.insert(object_key(recipe->bytes.object));
      }
    }
  }
  std::map<std::size_t, std::vector<std::string>> by_generation;
  for (const std::string& key : keys) {
    const auto manifest_of = commit_of_key(key);
    const auto id = manifest_of ? manifest_of : commit_of_book(key);
    if (kept_keys.contains(key) || (id && kept.contains(*id))) continue;
    by_generation[manifest_of ? generations[*manifest_of] : 0].push_back(key);
  }
  constexpr std::size_t k_piece = 1000;
  std::vector<std::vector<std::string>> pieces;
  for (const auto& [generation, all] : by_generation) {
    for (std::size_t begin = 0; begin < all.size(); begin += k_piece) {
      const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(begin + k_piece, all.size()));
      pieces.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(begin), end);
    }
  }
  return pieces;
}

GcReport::Waiting waiting_of(const GcPlan& plan, const std::map<std::string, Store::Listed>& unneeded,
                             std::int64_t left_s) {
  GcReport::Waiting waiting{0, 0, std::chrono::seconds(left_s)};
  for (const std::string& key : std::set<std::string>(plan.keys.begin(), plan.keys.end())) {
    const auto found = unneeded.find(key);
    // As it is removed: not what was put again since.
    if (found == unneeded.end() || found->second.written_ms >= plan.time_s * 1000) continue;
    ++waiting.count;
    waiting.bytes += found->second.size_bytes;
  }
  return waiting;
}

}  // namespace

GcReport collect_garbage(Repository& repository, std::chrono::seconds grace, GcMode mode, const Execution& execution) {
  Store& store = repository.store();
  const std::int64_t now_s = mode == GcMode::dry_run ? seconds_of(now_text()).value() : clock_of(store, execution);
  const GcTime time{now_s, grace};
  GcReport report;
  if (mode == GcMode::carry_out) store.bring_back();  // first: it may be what a commit needs
  execution.progress->begin("reading the history", 0);
  // In this order: what an entry names was there before it, so that a push meanwhile is no damage.
  std::optional<GcPlan> plan = read_gc_plan(store);
  if (plan && plan->time_s > now_s) {  // of a clock that was wrong: what has to wait begins anew
    if (mode == GcMode::carry_out) store.remove(k_gc_plan_key);
    plan.reset();
  }
  const std::vector<NamedCommit> ever_named = ever_named_in(repository);
  History history = History::read(repository, execution);
  const std::set<Digest> unfinished = unreachable(history, ever_named);
  require_recipes(history, unfinished);
  BookChanges changes = changes_of_books(history, ever_named, time, store);
  if (mode == GcMode::carry_out) {
    const bool any = !changes.old_keys.empty();
    carry_out(changes, repository, history, time);
    if (any) history = History::read(repository, execution);
  }
  report.given_up = std::exchange(changes.given_up, {});
  if (mode == GcMode::carry_out) changes = {};

  auto keys = unneeded(repository, history, unfinished, changes);
  if (grace.count() == 0) {
    plan = GcPlan{now_s + 1, {}};  // whatever is there now
    for (const auto& [key, listed] : keys) plan->keys.push_back(key);
  }
  // What is not listed yet was written a moment ago.
  const std::int64_t due_s = plan ? plan_written_s(store).value_or(now_s + 1) + grace.count() : 0;
  if (plan && (grace.count() == 0 || due_s <= now_s)) {
    std::set<std::string> old;
    for (const std::string& key : plan->keys) {
      const auto found = keys.find(key);
      // Needed again, gone, or put again by a push whose book is not there yet.
      if (found != keys.end() && found->second.written_ms < plan->time_s * 1000) old.insert(key);
    }
    for (const std::vector<std::string>& piece : in_pieces(old, history, unfinished)) {
      execution.check_stop();
      // Taken away by who puts or names something that it has.
      if (grace.count() != 0 && mode == GcMode::carry_out && read_gc_plan(store) != plan) break;
      const std::vector<std::string> removed =
          mode == GcMode::dry_run ? piece : remove_planned(store, piece, plan->time_s);
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
  if (plan) report.waiting = waiting_of(*plan, keys, due_s - now_s);
  if (mode == GcMode::dry_run) return report;
  store.remove_leftovers(now_s - grace.count(), is_object_key);
  if (!plan && !keys.empty()) {
    GcPlan next{now_s, {}};
    for (const auto& [key, listed] : keys) next.keys.push_back(key);
    store.put(k_gc_plan_key, to_text(next));
  }
  store.flush();
  remove_clocks(store);
  return report;
}

}  // namespace wdelta
