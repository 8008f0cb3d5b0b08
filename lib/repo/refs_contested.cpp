// SPDX-License-Identifier: Apache-2.0
// Branches and tags on stores where nothing can be created exclusively; repo/contested.hpp says why it holds.
#include "base/error.hpp"
#include "base/moment.hpp"
#include "repo/ref_entry.hpp"
#include "repo/refs.hpp"

#include <algorithm>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <set>

namespace wdelta {

namespace {

// How many settle times a writer waits for a store to show what it took.
constexpr int k_patience = 10;
// How often an entry is written when replies are lost.
constexpr int k_ref_attempts = 3;

Error moved_meanwhile(RefKind kind, const std::string& name) {
  return {Fault::conflict, name,
          fmt::format("{} was moved by someone else meanwhile", kind == RefKind::branch ? "branch" : "tag"),
          "nothing was lost; look at the log and push again"};
}

// Where the store said nothing of itself, it overwrites or refuses what it is to create.
void add_once(Store& store, const std::string& key, const std::string& text) {
  if (store.contest()) {
    store.create(key, text);
  } else {
    store.put_once(key, text);
  }
}

}  // namespace

void wait_steadily(std::chrono::milliseconds time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, time, [] { return false; });
}

void Refs::settle(const Execution& execution) const {
  // A settle time and a tick decide; one tick more, and readers, who know the time to a tick only, see it as well.
  wait_(contest_->settle + 2 * contest_->tick, execution.stop);
  execution.check_stop();
}

Refs::Seen Refs::look(RefKind kind, const std::optional<std::string>& name) const {
  const std::string folder = ref_folder(kind);
  const Store::TimedListing listing = store_->list_with_time(name ? folder + *name + "/" : folder);
  Seen seen{{}, listing.now_ms};
  for (const Store::Listed& listed : listing.keys) {
    const std::size_t slash = listed.key.rfind('/');
    if (slash < folder.size()) continue;
    const std::string found = listed.key.substr(folder.size(), slash - folder.size());
    if (name && found != *name) continue;  // of a branch whose name begins with this one's
    seen.series.try_emplace(found, *contest_).first->second.add(listed);
  }
  return seen;
}

ContestedEntries Refs::entries_of(RefKind kind, const std::string& name) const {
  Seen seen = look(kind, name);
  return std::move(seen.series.try_emplace(name, *contest_).first->second);
}

RefState Refs::newest_of(const std::vector<ContestedEntry>& line) const {
  if (line.empty()) return {};
  return {line.back().number, read_ref_entry(*store_, line.back().key).commit, line.back().write};
}

RefState Refs::read_to_move(RefKind kind, const std::string& name, const Execution& execution) const {
  if (!contest_) return read(kind, name);
  ContestedEntries entries = entries_of(kind, name);
  if (entries.has_orphans()) {
    // What lies between is not shown yet: building on what is older would be lost work.
    settle(execution);
    entries = entries_of(kind, name);
  }
  return newest_of(entries.line());
}

std::vector<std::string> Refs::write_contested(RefKind kind, const std::string& name, const RefState& before,
                                               const std::optional<Digest>& commit, const Execution& execution) {
  const std::string folder = ref_folder(kind) + name + "/";
  std::vector<std::string> writes;
  for (int attempt = 1;; ++attempt) {
    const RefEntry entry{commit, random_hex(k_write_digits), before.number == 0 ? no_entry_before() : before.write};
    const std::string key = contested_key(folder, before.number + 1, entry.write, entry.before);
    writes.push_back(entry.write);
    try {
      add_once(*store_, key, to_text(entry));
      return writes;
    } catch (const Error& error) {
      if (error.fault() != Fault::network) throw;
      // The reply was lost. The same entry written again would have another time, and what others have decided by the
      // first one might change; an entry of its own for the same commit harms nobody.
      settle(execution);
      if (entries_of(kind, name).is_rooted(entry.write)) return writes;
      if (attempt == k_ref_attempts) throw;
    }
  }
}

// So that nobody takes them for forks. That a withdrawal does not arrive makes a fork shown that is none.
void Refs::withdraw(RefKind kind, const std::string& name, const RefState& before,
                    const std::vector<std::string>& writes) try {
  const std::string folder = ref_folder(kind) + name + "/";
  const std::string entry_before = before.number == 0 ? no_entry_before() : before.write;
  for (const std::string& write : writes) {
    const std::string key = contested_key(folder, before.number + 1, write, entry_before);
    // Of those whose reply was lost, some were never there.
    const auto text = store_->get(key);
    if (!text) continue;
    const std::vector<std::uint8_t> bytes = read_all(*text);
    store_->put(withdrawal_key(key), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  store_->flush();
} catch (const Error& error) {
  if (error.fault() == Fault::interrupted) throw;
}

void Refs::add_contested(RefKind kind, const std::string& name, const RefState& before,
                         const std::optional<Digest>& commit, const Execution& execution) {
  // Whoever is late already need not write anything, nor wait. A listing that shows less than was seen before says
  // nothing.
  const std::vector<ContestedEntry> line = entries_of(kind, name).line();
  const bool is_beside = line.size() == before.number && !line.empty() && line.back().write != before.write;
  if (line.size() > before.number || is_beside) throw moved_meanwhile(kind, name);
  execution.progress->begin("waiting for the store to settle", 0);
  const std::vector<std::string> writes = write_contested(kind, name, before, commit, execution);
  for (int round = 1;; ++round) {
    settle(execution);
    const ContestedEntries entries = entries_of(kind, name);
    const auto is_ours = [&](const std::string& write) { return std::ranges::find(writes, write) != writes.end(); };
    for (const ContestedEntry& entry : entries.line()) {
      if (is_ours(entry.write)) return;
    }
    if (std::ranges::any_of(writes, [&](const std::string& write) { return entries.is_rooted(write); })) break;
    if (round == k_patience) {
      throw Error(Fault::network, name, "the store took an entry but does not show it, so whether it counts is unknown",
                  "look at the log in a while; to push again does no harm");
    }
  }
  withdraw(kind, name, before, writes);
  throw moved_meanwhile(kind, name);
}

void Refs::confirm(RefKind kind, const std::string& name, const RefState& state, const Execution& execution) const {
  if (!contest_ || state.number == 0) return;
  const auto is_decided = [&](const ContestedEntries& entries, std::optional<std::int64_t> now_ms) {
    return std::ranges::any_of(entries.line(now_ms),
                               [&](const ContestedEntry& entry) { return entry.write == state.write; });
  };
  const Seen seen = look(kind, name);
  const auto found = seen.series.find(name);
  if (seen.now_ms && found != seen.series.end() && is_decided(found->second, seen.now_ms)) return;
  execution.progress->begin("waiting for the store to settle", 0);
  settle(execution);
  if (!is_decided(entries_of(kind, name), std::nullopt)) throw moved_meanwhile(kind, name);
}

std::vector<Fork> Refs::forks(RefKind kind, const std::string& name) const {
  if (!contest_) return {};
  return forks_in(look(kind, name));
}

std::vector<Fork> Refs::forks(RefKind kind) const {
  if (!contest_) return {};
  return forks_in(look(kind, std::nullopt));
}

std::vector<Fork> Refs::forks_in(const Seen& seen) const {
  std::vector<Fork> forks;
  for (const auto& [name, entries] : seen.series) {
    for (const ContestedEntry& entry : entries.forks(seen.now_ms)) {
      if (const auto commit = read_ref_entry(*store_, entry.key).commit) forks.push_back({name, *commit});
    }
  }
  if (forks.empty()) return forks;
  // What a branch or tag names, or named, nobody has to be told of.
  std::set<Digest> named;
  for (const RefKind kind : {RefKind::branch, RefKind::tag}) {
    for (const auto& [name, entries] : look(kind, std::nullopt).series) {
      for (const ContestedEntry& entry : entries.line()) {
        if (const auto commit = read_ref_entry(*store_, entry.key).commit) named.insert(*commit);
      }
    }
  }
  std::erase_if(forks, [&](const Fork& fork) { return named.contains(fork.commit); });
  return forks;
}

}  // namespace wdelta
